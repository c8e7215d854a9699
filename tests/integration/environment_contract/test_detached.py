"""Detached processes: one per id, whoever starts, follows or ends them."""

from __future__ import annotations

import asyncio
import json

import pytest
from environment_providers import (
    ProviderUnderTest,
    eventually,
    pid_written_to,
    runs_inside,
)

from agentcompass.contracts import EnvironmentSession, ProcessStatus


async def ended(session: EnvironmentSession, process_id: str) -> ProcessStatus:
    """The last status of a process that ends by itself."""
    statuses: list[ProcessStatus] = []

    async def is_over() -> bool:
        status = await session.process_status(process_id)
        assert status is not None
        statuses.append(status)
        return not status.running

    await eventually(is_over, f"{process_id} ends")
    return statuses[-1]


async def test_an_id_that_was_never_started_has_no_status(session: EnvironmentSession) -> None:
    assert await session.process_status("nobody") is None


async def test_output_and_exit_status_are_kept_after_the_end(session: EnvironmentSession) -> None:
    started = await session.start_process("p", "echo out; echo err >&2; exit 3")
    assert started.process_id == "p"
    status = await ended(session, "p")
    assert (status.returncode, status.stdout_bytes, status.stderr_bytes) == (3, 4, 4)
    assert await session.read_process_output("p", "stdout", 0) == b"out\n"
    assert await session.read_process_output("p", "stderr", 0) == b"err\n"


async def test_a_second_start_of_an_id_changes_nothing(session: EnvironmentSession) -> None:
    await session.start_process("p", "echo x >> starts; exec sleep 600")
    await session.start_process("p", "echo x >> starts; exec sleep 600")
    await eventually(lambda: is_file(session, "starts"), "the process has begun")
    assert await session.read("starts") == b"x\n"


async def test_starts_of_an_id_at_the_same_time_make_one_process(
    provider: ProviderUnderTest, session: EnvironmentSession
) -> None:
    command = "echo x >> starts; exec sleep 600"
    await asyncio.gather(
        *(session.start_process("p", command) for _ in range(6)),
        *(provider.in_other_process(session.handle, "start", "p", command) for _ in range(3)),
    )
    await eventually(lambda: is_file(session, "starts"), "the process has begun")
    assert await session.read("starts") == b"x\n"


async def test_a_start_that_is_cancelled_starts_nothing_afterwards(session: EnvironmentSession) -> None:
    """Whoever ends processes then would miss it."""
    starting = asyncio.create_task(session.start_process("p", "sleep 600"))
    await asyncio.sleep(0)  # it has begun
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await session.end_process("p", grace_seconds=0)
    await session.exec("true")
    status = await session.process_status("p")
    assert status is None or not status.running


async def test_starting_an_ended_id_again_returns_how_it_ended(session: EnvironmentSession) -> None:
    await session.start_process("p", "exit 5")
    await ended(session, "p")
    again = await session.start_process("p", "exit 5")
    assert (again.running, again.returncode) == (False, 5)


async def test_output_is_read_from_an_offset_in_pieces(session: EnvironmentSession) -> None:
    await session.start_process("p", r"printf '0123\377\376\375789'")
    await ended(session, "p")
    assert await session.read_process_output("p", "stdout", 3, max_bytes=4) == b"3\xff\xfe\xfd"
    assert await session.read_process_output("p", "stdout", 7, max_bytes=100) == b"789"
    assert await session.read_process_output("p", "stdout", 10) == b""


async def test_output_can_be_read_while_the_process_runs(session: EnvironmentSession) -> None:
    await session.start_process("p", "echo first; while [ ! -e go ]; do sleep 0.05; done; echo second")
    await eventually(lambda: has_output(session, "p", b"first\n"), "the first line is there")
    await session.write("go", b"")
    assert (await ended(session, "p")).returncode == 0
    assert await session.read_process_output("p", "stdout", 6) == b"second\n"


async def test_cwd_variables_and_sequences_work_as_for_exec(session: EnvironmentSession) -> None:
    await session.exec("mkdir sub")
    await session.start_process("p", ["sh", "-c", 'pwd -P; echo "$A"'], cwd="sub", env={"A": "1 $2"})
    await ended(session, "p")
    expected = f"{session.workdir}/sub\n1 $2\n".encode()
    assert await session.read_process_output("p", "stdout", 0) == expected


async def test_a_program_that_does_not_exist_ends_with_a_status(session: EnvironmentSession) -> None:
    await session.start_process("p", ["no-such-program-c0ffee"])
    assert (await ended(session, "p")).returncode in (126, 127)


async def test_ids_may_hold_any_character(session: EnvironmentSession) -> None:
    odd = "run harness/../ä #1"
    await session.start_process(odd, "echo here")
    assert (await ended(session, odd)).process_id == odd
    assert await session.read_process_output(odd, "stdout", 0) == b"here\n"


async def test_a_process_outlives_a_follower_that_is_killed_and_its_status_is_kept(
    provider: ProviderUnderTest, session: EnvironmentSession
) -> None:
    command = "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 9"
    follower = await provider.start_other_process(session.handle, "start_and_follow", "agent", command)
    assert follower.stdout is not None
    first = json.loads(await asyncio.wait_for(follower.stdout.readline(), 30))
    follower.kill()
    await follower.wait()
    status = await session.process_status("agent")
    assert status is not None and status.running
    await session.write("go", b"")
    assert (await ended(session, "agent")).returncode == 9
    assert await session.read_process_output("agent", "stdout", first["offset"]) == b"two\n"


async def test_another_process_sees_the_status(
    provider: ProviderUnderTest, session: EnvironmentSession
) -> None:
    await session.start_process("p", "exit 4")
    await ended(session, "p")
    answer = await provider.in_other_process(session.handle, "status", "p")
    assert (answer["running"], answer["returncode"]) == (False, 4)


async def test_another_process_ends_it_with_all_that_it_started(
    provider: ProviderUnderTest, session: EnvironmentSession, innocent: object
) -> None:
    escaped = "env -i PATH=\"$PATH\" setsid sh -c 'echo $$ > escaped; exec sleep 600' >/dev/null 2>&1 &"
    await session.start_process("p", f"{escaped} echo $$ > main; exec sleep 600")
    pids = [await pid_written_to(session, name) for name in ("main", "escaped")]
    await provider.in_other_process(session.handle, "end_process", "p")
    assert [await runs_inside(session, pid) for pid in pids] == [False, False]
    status = await session.process_status("p")
    assert status is not None and not status.running
    assert status.returncode != 0


async def test_ending_leaves_other_processes_alone_and_may_be_repeated(session: EnvironmentSession) -> None:
    await session.start_process("a", "exec sleep 600")
    await session.start_process("b", "exec sleep 600")
    await session.end_process("a")
    await session.end_process("a")
    await session.end_process("never-started")
    status = await session.process_status("b")
    assert status is not None and status.running


async def test_a_process_that_ignores_sigterm_is_ended_after_the_grace(session: EnvironmentSession) -> None:
    await session.start_process("p", "trap '' TERM; echo $$ > pid; while :; do sleep 600; done")
    pid = await pid_written_to(session, "pid")
    await session.end_process("p", grace_seconds=0.2)
    assert not await runs_inside(session, pid)


async def test_a_process_that_handles_sigterm_has_the_grace_to_do_so(session: EnvironmentSession) -> None:
    await session.start_process(
        "p", "trap 'echo saved > state; exit 0' TERM; echo $$ > pid; while :; do sleep 0.1; done"
    )
    await pid_written_to(session, "pid")
    await session.end_process("p", grace_seconds=20)
    assert await session.read("state") == b"saved\n"


async def test_detached_output_without_end_is_ended(provider: ProviderUnderTest) -> None:
    if provider.output_limit_bytes is None:
        pytest.skip("this provider has no output limit")
    environment = provider.make(**provider.limited)
    session = await environment.open(provider.open_request())
    try:
        await session.start_process("p", "yes")
        status = await ended(session, "p")
        assert status.output_limit_exceeded and status.returncode != 0
        assert status.stdout_bytes <= provider.output_limit_bytes
    finally:
        await environment.close(session.handle)


async def is_file(session: EnvironmentSession, path: str) -> bool:
    """Whether a file has something in it."""
    try:
        return bool(await session.read(path))
    except FileNotFoundError:
        return False


async def has_output(session: EnvironmentSession, process_id: str, wanted: bytes) -> bool:
    """Whether the process has written exactly that."""
    return await session.read_process_output(process_id, "stdout", 0) == wanted
