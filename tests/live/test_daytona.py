"""Against the real Daytona: ``DAYTONA_API_KEY=… pytest tests/live/test_daytona.py``. Costs a few minutes of a small sandbox."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from agentcompass.contracts import (
    EnvironmentHandle,
    EnvironmentLostError,
    EnvironmentSession,
    EnvironmentSpec,
    NetworkPolicy,
    OpenRequest,
)
from agentcompass.plugins.environments.daytona import Daytona, DaytonaParams

pytestmark = pytest.mark.skipif(
    not os.environ.get("DAYTONA_API_KEY"), reason="needs an account: set DAYTONA_API_KEY"
)
NO_NETWORK = NetworkPolicy(network_mode="no-network")


@pytest.fixture
async def opened() -> AsyncIterator[tuple[Daytona, EnvironmentSession]]:
    """A sandbox without a network."""
    provider = Daytona(DaytonaParams(auto_stop_minutes=5, lifetime_minutes=15))
    identity = f"ac-live-{uuid.uuid4().hex[:12]}"
    request = OpenRequest(
        environment_id=identity,
        spec=EnvironmentSpec(id="daytona"),
        network_policy=NO_NETWORK,
        env_variables={"TOKEN": "canary-9a9a"},
        labels={"launch": identity},
    )
    try:
        yield provider, await provider.open(request)
    finally:
        await provider.close(EnvironmentHandle(provider="daytona", id=identity))


async def test_commands_processes_and_files(
    opened: tuple[Daytona, EnvironmentSession], tmp_path: Path
) -> None:
    provider, session = opened
    result = await session.exec("printf 'caf\\351'; echo err >&2; exit 3")
    assert (result.returncode, result.stdout.head, result.stderr.text) == (3, b"caf\xe9", "err\n")
    assert (await session.exec("echo on; exec sleep 600", timeout_seconds=2)).timed_out
    await session.start_process("p", "echo one; exec sleep 600")
    attached = await provider.attach(session.handle)
    assert await attached.read_process_output("p", "stdout", 0) == b"one\n"
    assert (await attached.exec('printf %s "$TOKEN"')).stdout.text == "canary-9a9a"
    assert await session.end_all_processes() >= 1
    (tmp_path / "source" / "sub").mkdir(parents=True)
    (tmp_path / "source" / "sub" / "file").write_bytes(bytes(range(256)) * 1000)
    await session.upload(tmp_path / "source", "tree")
    await session.download("tree", tmp_path / "back")
    assert (tmp_path / "back" / "sub" / "file").read_bytes() == bytes(range(256)) * 1000


async def test_the_network_is_switched(opened: tuple[Daytona, EnvironmentSession]) -> None:
    _, session = opened
    probe = "python3 -c \"import urllib.request as u; u.urlopen('https://pypi.org', timeout=10)\""
    other = probe.replace("pypi.org", "example.com")
    assert not (await session.exec(probe)).ok
    await session.set_network_policy(NetworkPolicy(network_mode="allowlist", allowed_hosts=["pypi.org"]))
    assert (await session.exec(probe)).ok
    assert not (await session.exec(other)).ok
    await session.set_network_policy(NO_NETWORK)
    assert not (await session.exec(probe)).ok
    await session.set_network_policy(NetworkPolicy())
    assert (await session.exec(other)).ok


async def test_it_is_listed_by_its_label_until_it_is_closed(
    opened: tuple[Daytona, EnvironmentSession],
) -> None:
    provider, session = opened
    labels = {"launch": session.handle.id}
    assert [record.handle for record in await provider.list_environments(labels)] == [session.handle]
    await provider.close(session.handle)
    assert await provider.list_environments(labels) == []
    with pytest.raises(EnvironmentLostError):
        await provider.attach(session.handle)
