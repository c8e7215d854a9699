"""A host_process provider with a root of the test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from environment_providers import ProviderUnderTest

from agentcompass.contracts import EnvironmentSession, EnvironmentSpec
from agentcompass.plugins.environments.host_process import HostProcess, HostProcessParams


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the environments are."""
    return tmp_path / "environments"


@pytest.fixture
def described(root: Path) -> ProviderUnderTest:
    """The provider, as another process can make it, too."""
    return ProviderUnderTest(
        target="agentcompass.plugins.environments.host_process:HostProcess",
        params={"root": str(root), "grace_seconds": 0.2},
        spec=EnvironmentSpec(id="host_process"),
    )


@pytest.fixture
def host(root: Path) -> HostProcess:
    """The provider."""
    return HostProcess(HostProcessParams(root=root, grace_seconds=0.2))


@pytest.fixture
async def session(described: ProviderUnderTest, host: HostProcess) -> AsyncIterator[EnvironmentSession]:
    """An environment of the test's own."""
    opened = await host.open(described.open_request("launch/req/Task 1/a1"))
    yield opened
    await host.close(opened.handle)
