"""What runs out of time, writes without end or is cancelled is dead afterwards, with all it started."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from environment_providers import ProviderUnderTest, eventually, pid_written_to, runs_inside

from agentcompass.contracts import EnvironmentSession

FAMILY = (
    "sh -c 'echo $$ > child; exec sleep 600' & "
    "setsid sh -c 'echo $$ > escaped; exec sleep 600' & "
    "(setsid sh -c 'echo $$ > orphan; exec sleep 600' &) & "
    "env -i PATH=\"$PATH\" setsid sh -c 'echo $$ > wiped; exec sleep 600' & "
    "sh -c 'trap \"\" TERM; echo $$ > stubborn; while :; do sleep 600; done' & "
)
"""A command that starts: a child, one in a session of its own, one that lost its parent, one without
variables, and one that ignores SIGTERM."""

MEMBERS = ("child", "escaped", "orphan", "wiped", "stubborn")


async def alive(session: EnvironmentSession) -> list[str]:
    """Which members of the family, all of which have started, still run."""
    pids = {name: await pid_written_to(session, name) for name in MEMBERS}
    return [name for name, pid in pids.items() if await runs_inside(session, pid)]


async def test_a_timeout_ends_everything_that_the_command_started(
    session: EnvironmentSession, innocent: object
) -> None:
    result = await session.exec(FAMILY + "echo before; wait", timeout_seconds=2)
    assert result.timed_out and result.returncode is None and not result.ok
    assert result.stdout.text == "before\n"
    assert 2 <= result.seconds < 20
    assert await alive(session) == []


@pytest.mark.parametrize(
    "waits", ["while :; do :; done", "mkfifo answer; read line < answer"], ids=["busy", "prompt"]
)
async def test_what_never_ends_by_itself_ends_at_its_timeout(session: EnvironmentSession, waits: str) -> None:
    result = await session.exec(f"echo $$ > pid; {waits}", timeout_seconds=1)
    assert result.timed_out
    assert not await runs_inside(session, await pid_written_to(session, "pid"))


async def test_a_timeout_leaves_other_commands_alone(session: EnvironmentSession) -> None:
    await session.start_process("service", "exec sleep 600")
    await session.exec("sleep 600 >/dev/null 2>&1 & echo $! > background")
    await session.exec("sleep 600", timeout_seconds=0.3)
    status = await session.process_status("service")
    assert status is not None and status.running
    assert await runs_inside(session, await pid_written_to(session, "background"))


async def test_a_command_within_its_time_is_no_timeout(session: EnvironmentSession) -> None:
    result = await session.exec("echo quick", timeout_seconds=60)
    assert (result.timed_out, result.returncode) == (False, 0)


async def test_cancelling_a_command_ends_everything_that_it_started(
    session: EnvironmentSession, innocent: object
) -> None:
    running = asyncio.create_task(session.exec(FAMILY + "wait"))
    for name in MEMBERS:
        await pid_written_to(session, name)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await alive(session) == []


async def test_cancelling_again_while_it_is_being_ended_still_ends_it(session: EnvironmentSession) -> None:
    running = asyncio.create_task(session.exec("trap '' TERM; echo $$ > pid; while :; do sleep 600; done"))
    pid = await pid_written_to(session, "pid")
    running.cancel()
    await asyncio.sleep(0.05)  # the grace has begun
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not await runs_inside(session, pid)


async def test_a_command_that_writes_without_end_is_ended_and_says_so(provider: ProviderUnderTest) -> None:
    if provider.output_limit_bytes is None:
        pytest.skip("this provider has no output limit")
    environment = provider.make(**provider.limited)
    session = await environment.open(provider.open_request())
    try:
        result = await session.exec("echo $$ > pid; yes", timeout_seconds=60)
        assert result.output_limit_exceeded and not result.timed_out
        assert result.stdout.total_bytes <= provider.output_limit_bytes
        assert result.stdout.head.startswith(b"y\ny\n")
        assert not await runs_inside(session, await pid_written_to(session, "pid"))
    finally:
        await environment.close(session.handle)


async def test_ending_all_processes_leaves_files_and_an_empty_sandbox(
    session: EnvironmentSession, innocent: object
) -> None:
    await session.start_process("agent", FAMILY + "wait")
    for name in MEMBERS:
        await pid_written_to(session, name)
    assert await session.end_all_processes() >= len(MEMBERS)
    assert await alive(session) == []
    status = await session.process_status("agent")
    assert status is not None and not status.running

    async def nothing_is_left() -> bool:
        """What asked for the status may be on its way out."""
        return await session.end_all_processes() == 0

    await eventually(nothing_is_left, "a sandbox without processes")


async def test_leftovers_of_finished_commands_are_ended_too(session: EnvironmentSession) -> None:
    await session.exec("setsid sh -c 'echo $$ > left; exec sleep 600' >/dev/null 2>&1 &")
    pid = await pid_written_to(session, "left")
    assert await session.end_all_processes() == 1
    assert not await runs_inside(session, pid)


async def test_commands_run_after_all_processes_were_ended(session: EnvironmentSession) -> None:
    await session.end_all_processes()
    result: Any = await session.exec("echo still here")
    assert result.stdout.text == "still here\n"
