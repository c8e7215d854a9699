"""Somewhere to extract to, and a real sandbox to collect from."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hostile_archives import Extractor

from agentcompass.contracts import EnvironmentSession, EnvironmentSpec, NetworkPolicy, OpenRequest
from agentcompass.plugins.environments.host_process import HostProcess


@pytest.fixture
def extract(tmp_path: Path) -> Extractor:
    return Extractor(tmp_path)


@pytest.fixture
async def session(tmp_path: Path) -> AsyncIterator[EnvironmentSession]:
    """A sandbox of the test's own."""
    environment = HostProcess(
        HostProcess.Params.model_validate({"root": str(tmp_path / "environments"), "grace_seconds": 0.2})
    )
    opened = await environment.open(
        OpenRequest(
            environment_id="artifacts",
            spec=EnvironmentSpec(id="host_process"),
            network_policy=NetworkPolicy(),
        )
    )
    yield opened
    await environment.close(opened.handle)
