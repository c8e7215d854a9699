"""A real environment and a real model server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from model_server import ModelServer

from agentcompass.contracts import EnvironmentSession, EnvironmentSpec, NetworkPolicy, OpenRequest
from agentcompass.plugins.environments.host_process import HostProcess, HostProcessParams


@pytest.fixture
async def env(tmp_path: Path) -> AsyncIterator[EnvironmentSession]:
    host = HostProcess(HostProcessParams(root=tmp_path / "environments", grace_seconds=0.2))
    request = OpenRequest(
        environment_id="launch/request/t1/a1",
        spec=EnvironmentSpec(id="host_process"),
        network_policy=NetworkPolicy(),
    )
    session = await host.open(request)
    yield session
    await host.close(session.handle)


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(api_key="the-model-key") as running:
        yield running
