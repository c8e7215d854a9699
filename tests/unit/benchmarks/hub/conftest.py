"""A hub on loopback and a home of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_hub import FakeHub, running_hub

from agentcompass.plugins.benchmarks.hub import client


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """The hub that ``HF_ENDPOINT`` names; what is asked of it has to be part of its API."""
    monkeypatch.setenv("AGENTCOMPASS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setattr(client, "FIRST_PAUSE_SECONDS", 0.0)
    with running_hub() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running
        assert running.violations == []
