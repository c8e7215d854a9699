"""The provider contract: one suite, run unchanged against each environment.

To put another provider under test, add a function that describes it to ``PROVIDERS``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from docker_engine import IMAGE, require_engine
from environment_providers import ProviderUnderTest
from fake_daytona import KEY_VARIABLE, require_fake_daytona
from fake_modal import VARIABLES, require_fake_modal

from agentcompass.contracts import Environment, EnvironmentSession, EnvironmentSpec

LIMIT_BYTES = 8 * 1024 * 1024


def host_process(folder: Path) -> ProviderUnderTest:
    """Commands on this machine, in a root of the test's own."""
    return ProviderUnderTest(
        target="agentcompass.plugins.environments.host_process:HostProcess",
        params={"root": str(folder / "environments"), "grace_seconds": 0.5},
        spec=EnvironmentSpec(id="host_process"),
        output_limit_bytes=LIMIT_BYTES,
        limited={"max_output_bytes": LIMIT_BYTES},
    )


def docker(folder: Path) -> ProviderUnderTest:
    """Containers of an image that has a POSIX shell and the small tools, and nothing else."""
    del folder
    require_engine()
    return ProviderUnderTest(
        target="agentcompass.plugins.environments.docker:Docker",
        params={"image": IMAGE, "pull": "never", "grace_seconds": 0.5},
        spec=EnvironmentSpec(id="docker"),
        output_limit_bytes=LIMIT_BYTES,
        limited={"max_output_bytes": LIMIT_BYTES},
    )


def daytona(folder: Path) -> ProviderUnderTest:
    """Sandboxes at a stand-in of Daytona on this machine."""
    del folder
    return ProviderUnderTest(
        target="agentcompass.plugins.environments.daytona:Daytona",
        params={
            "api_url": require_fake_daytona().url,
            "api_key_variable": KEY_VARIABLE,
            "grace_seconds": 0.5,
        },
        spec=EnvironmentSpec(id="daytona"),
        output_limit_bytes=LIMIT_BYTES,
        limited={"max_output_bytes": LIMIT_BYTES},
    )


def modal(folder: Path) -> ProviderUnderTest:
    """Sandboxes at a stand-in of Modal on this machine."""
    del folder
    require_fake_modal()
    return ProviderUnderTest(
        target="agentcompass.plugins.environments.modal:Modal",
        params={**VARIABLES, "grace_seconds": 0.5},
        spec=EnvironmentSpec(id="modal"),
        output_limit_bytes=LIMIT_BYTES,
        limited={"max_output_bytes": LIMIT_BYTES},
    )


PROVIDERS: dict[str, Callable[[Path], ProviderUnderTest]] = {
    "daytona": daytona,
    "docker": docker,
    "host_process": host_process,
    "modal": modal,
}


@pytest.fixture(params=sorted(PROVIDERS))
def provider(request: pytest.FixtureRequest, tmp_path: Path) -> ProviderUnderTest:
    """Each provider in turn."""
    return PROVIDERS[request.param](tmp_path)


@pytest.fixture
def environment(provider: ProviderUnderTest) -> Environment[Any]:
    """An instance of the provider."""
    return provider.make()


@pytest.fixture
async def session(
    provider: ProviderUnderTest, environment: Environment[Any]
) -> AsyncIterator[EnvironmentSession]:
    """A sandbox of the test's own, closed afterwards."""
    opened = await environment.open(provider.open_request())
    yield opened
    await environment.close(opened.handle)


@pytest.fixture
def innocent() -> Iterator[subprocess.Popen[bytes]]:
    """A process beside the sandbox, of the same program and user as those in it."""
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    process = subprocess.Popen(command, start_new_session=True)
    yield process
    assert process.poll() is None, "a process outside the sandbox was ended"
    process.kill()
    process.wait()
