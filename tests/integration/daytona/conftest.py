"""A provider for the stand-in of Daytona."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_daytona import KEY_VARIABLE, FakeDaytona, require_fake_daytona

from agentcompass.contracts import EnvironmentSpec, NetworkPolicy, OpenRequest
from agentcompass.plugins.environments.daytona import Daytona, DaytonaParams


@pytest.fixture
def daytona() -> Iterator[FakeDaytona]:
    """The stand-in; no sandbox is left, and nothing goes wrong any more."""
    found = require_fake_daytona()
    yield found
    found.fail(quota=1000, page=2, busy=0, lost_answers=0, broken_creations=0, hold_creations=False)
    assert found.seen()["sandboxes"] == []


@pytest.fixture
def provider(daytona: FakeDaytona) -> Callable[..., Daytona]:
    """Makes providers, with some parameters changed."""

    def make(**changes: Any) -> Daytona:
        params = {"api_url": daytona.url, "api_key_variable": KEY_VARIABLE, "grace_seconds": 0.3}
        return Daytona(DaytonaParams.model_validate(params | changes))

    return make


@pytest.fixture
def request_for() -> Callable[..., OpenRequest]:
    """Makes requests for sandboxes of new ids; keys of the spec may be given."""

    def make(environment_id: str = "", spec: dict[str, Any] | None = None, **changes: Any) -> OpenRequest:
        values: dict[str, Any] = {
            "environment_id": environment_id or f"ac-daytona-test-{uuid.uuid4().hex[:12]}",
            "spec": EnvironmentSpec(id="daytona", **(spec or {})),
            "network_policy": NetworkPolicy(),
            "labels": {"launch": "daytona-test"},
        }
        return OpenRequest(**(values | changes))

    return make
