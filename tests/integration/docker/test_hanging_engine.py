"""An engine that stops answering, or answers late: who waits for it can go, and other sandboxes go on."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path

import pytest
from docker_engine import containers_of, open_request
from hanging_engine import engine_that_answers_in_one_piece, engine_that_hangs, engine_whose_answer_is_lost

from agentcompass.contracts import ServiceUnreachableError


async def test_a_removal_that_hangs_can_be_given_up_and_repeated(
    opening, provider, client, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    async with opening() as other:
        with engine_that_hangs(tmp_path, b"DELETE ") as host:
            hanging = provider(host=host, engine_timeout_seconds=3)
            session = await hanging.open(open_request())
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await hanging.close(session.handle)
            assert (await other.exec("echo on")).stdout.text == "on\n"
            assert (await session.exec("echo still there")).ok
        await provider().close(session.handle)
        assert session.handle.data["container"] not in str(client.api.containers(all=True))


async def test_a_container_that_never_starts_costs_its_own_opening_only(
    opening, provider, client, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    launch = uuid.uuid4().hex
    async with opening() as other:
        with engine_that_hangs(tmp_path, b"POST ", b"/start") as host:
            hanging = provider(host=host, engine_timeout_seconds=2)
            starting = asyncio.create_task(hanging.open(open_request(labels={"launch": launch})))
            assert (await other.exec("echo on")).stdout.text == "on\n"
            with pytest.raises(ServiceUnreachableError, match=host):
                await starting
    assert containers_of(client, launch=launch) == []


async def test_a_creation_whose_answer_is_lost_leaves_one_container_that_closing_finds(
    provider, client, tmp_path: Path
) -> None:  # type: ignore[no-untyped-def]
    launch = uuid.uuid4().hex
    request = open_request(labels={"launch": launch})
    with engine_whose_answer_is_lost(tmp_path, b"POST ", b"/containers/create") as host:
        with pytest.raises(ServiceUnreachableError, match=host):
            await provider(host=host).open(request)
    assert len(containers_of(client, launch=launch)) == 1
    session = await provider().open(request)  # tried again, it takes up what is there
    assert (await session.exec("echo on")).stdout.text == "on\n"
    assert len(containers_of(client, launch=launch)) == 1
    await provider().close(session.handle)
    assert containers_of(client, launch=launch) == []


async def test_output_that_comes_with_the_head_of_the_answer_is_not_lost(provider, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    with engine_that_answers_in_one_piece(tmp_path) as host:
        environment = provider(host=host)
        session = await environment.open(open_request())
        try:
            assert (await session.exec("echo on")).stdout.text == "on\n"
            await session.start_process("agent", "echo from the agent")
            assert await session.end_all_processes() >= 0
            assert await session.read_process_output("agent", "stdout", 0) == b"from the agent\n"
        finally:
            await environment.close(session.handle)
