"""Containers end by themselves when nobody shows a sign of life any more."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import docker
import pytest
from docker_engine import NON_ROOT_IMAGE, open_request

from agentcompass.contracts import EnvironmentLostError
from agentcompass.contracts.environment_labels import KEPT
from agentcompass.plugins.environments.docker.session import DockerSession

SHORT = {"time_to_live_seconds": 10}
REMOVAL_SECONDS = 60


def container_of(session: DockerSession) -> str:
    return str(session.handle.data["container"])


async def removed(client: docker.DockerClient, session: DockerSession) -> None:
    """Wait until the engine has removed the container."""
    try:
        await asyncio.to_thread(client.api.wait, container_of(session), REMOVAL_SECONDS, "removed")
    except docker.errors.NotFound:
        return  # the engine was faster than the question


async def test_a_container_that_nobody_renews_is_gone_after_its_time_and_a_renewed_one_goes_on(
    client, provider, opening
) -> None:  # type: ignore[no-untyped-def]
    async with opening(params=SHORT) as renewed, opening(params=SHORT) as left:
        for session in (renewed, left):
            await session.start_process("agent", "sleep 1000")
        await provider().renew(renewed.handle, time.time() + 3600)
        await removed(client, left)
        with pytest.raises(EnvironmentLostError, match="time to live was over"):
            await provider().attach(left.handle)
        # It began before the other one. Had it gone on counting, it would have ended before it.
        status = await renewed.process_status("agent")
        assert status is not None and status.running


async def test_a_shorter_time_holds_too(client, provider, opening) -> None:  # type: ignore[no-untyped-def]
    async with opening(params={"time_to_live_seconds": 3600}) as session:
        await session.exec("kill -9 $(pidof sleep)")  # it looks for renewals now
        await provider().renew(session.handle, time.time() + 1)
        await session.exec("kill -9 $(pidof sleep)")
        await removed(client, session)


SPOILING = [
    "mkfifo $NOTE",
    "mkdir $NOTE",
    "echo 99999999999999999999 x >$NOTE",
    "printf 100000 >$NOTE",
    "echo '$(id)' '*' >$NOTE",
]


async def test_a_spoiled_note_neither_stops_nor_lengthens_the_time(client, opening) -> None:  # type: ignore[no-untyped-def]
    async def spoil(command: str) -> None:
        async with opening(params=SHORT) as session:
            result = await session.exec(command, env={"NOTE": "/.agentcompass/lease"})
            assert result.returncode == 0, command
            await removed(client, session)

    await asyncio.gather(*(spoil(command) for command in SPOILING))


async def test_an_agent_without_root_cannot_write_the_note(opening) -> None:  # type: ignore[no-untyped-def]
    async with opening(params={"image": NON_ROOT_IMAGE}) as session:
        result = await session.exec("echo 1000000 1 >/.agentcompass/lease")
        assert result.returncode != 0


async def test_a_kept_container_has_no_end(client, provider) -> None:  # type: ignore[no-untyped-def]
    environment = provider(**SHORT)
    labels = {"launch": "docker-test", "expiry": str(int(time.time()) + 60), "keep": KEPT}
    session = await environment.open(open_request(labels=labels))
    try:
        facts: dict[str, Any] = client.api.inspect_container(container_of(session))
        assert not facts["HostConfig"]["AutoRemove"]
        await environment.renew(session.handle, time.time() + 60)
        [record] = [
            item for item in await environment.list_environments() if item.handle.id == session.handle.id
        ]
        assert record.expires_at is None
    finally:
        await environment.close(session.handle)


async def test_the_time_of_an_opening_comes_from_its_label(client, provider) -> None:  # type: ignore[no-untyped-def]
    environment = provider()
    labels = {"launch": "docker-test", "expiry": str(int(time.time()) + 3)}
    session = await environment.open(open_request(labels=labels))
    try:
        await removed(client, session)
    finally:
        await environment.close(session.handle)


async def test_a_container_that_is_begun_anew_stays_and_keeps_its_files(client, opening) -> None:  # type: ignore[no-untyped-def]
    """As when processes are left that only this ends."""
    async with opening(params={"time_to_live_seconds": 3600}) as session:
        await session.write("kept", b"kept")
        await asyncio.to_thread(client.api.restart, container_of(session), timeout=0)
        assert await session.read("kept") == b"kept"


async def test_a_stopped_container_tells_how_it_ended_although_it_is_gone(client, provider, opening) -> None:  # type: ignore[no-untyped-def]
    async with opening(params={"time_to_live_seconds": 3600}) as session:
        await asyncio.to_thread(client.api.kill, container_of(session))
        await removed(client, session)
        with pytest.raises(EnvironmentLostError, match="ended with status 137"):
            await provider().attach(session.handle)
