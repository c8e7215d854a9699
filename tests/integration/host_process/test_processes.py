"""How host_process finds processes, and what a killed worker leaves."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from environment_providers import ProviderUnderTest, eventually, pid_written_to, runs_inside
from processes_inside import seen_here

from agentcompass.contracts import EnvironmentSession
from agentcompass.plugins.environments.host_process import HostProcess, process_table
from agentcompass.plugins.environments.host_process.exit_watch import exit_of
from agentcompass.plugins.environments.host_process.process_table import (
    ProcessIdentity,
    identity_of,
    is_alive,
    send_signal,
)


def start(script: str) -> subprocess.Popen[bytes]:
    """A child of the test."""
    return subprocess.Popen(["sh", "-c", script])


def start_claimer(lock: Path) -> subprocess.Popen[bytes]:
    """A process that holds the lock of a detached process, as one about to start it does."""
    script = (
        "import fcntl, sys, time; lock = open(sys.argv[1], 'a'); fcntl.flock(lock, fcntl.LOCK_EX); "
        "print('claimed', flush=True); time.sleep(600)"
    )
    claimer = subprocess.Popen([sys.executable, "-c", script, str(lock)], stdout=subprocess.PIPE)
    assert claimer.stdout is not None and claimer.stdout.readline() == b"claimed\n"
    return claimer


async def test_a_command_of_a_killed_worker_is_ended_by_the_next_one_that_attaches(
    described: ProviderUnderTest, host: HostProcess, session: EnvironmentSession
) -> None:
    command = "sleep 600 & echo $! > background; echo $$ > pid; wait"
    worker = await described.start_other_process(session.handle, "execute", command)
    pids = [await pid_written_to(session, name) for name in ("background", "pid")]
    worker.kill()
    await worker.wait()
    assert await runs_inside(session, pids[1])
    await host.attach(session.handle)
    assert [await runs_inside(session, pid) for pid in pids] == [False, False]


async def test_closing_finds_a_process_after_all_traces_of_commands_were_removed(
    host: HostProcess, session: EnvironmentSession
) -> None:
    await session.exec("sleep 600 >/dev/null 2>&1 & echo $! > pid")
    identity = await seen_here(session, "pid")
    for trace in (Path(session.workdir).parent / "proc").iterdir():
        trace.unlink()
    await host.close(session.handle)
    assert not is_alive(identity)


async def test_attaching_leaves_commands_of_living_workers_and_background_services_alone(
    described: ProviderUnderTest, host: HostProcess, session: EnvironmentSession
) -> None:
    await described.in_other_process(
        session.handle, "execute", "sleep 600 >/dev/null 2>&1 & echo $! > service"
    )
    command = asyncio.create_task(session.exec("echo $$ > pid; while [ ! -e go ]; do sleep 0.05; done"))
    pid = await pid_written_to(session, "pid")
    await host.attach(session.handle)
    assert await runs_inside(session, pid)
    assert await runs_inside(session, await pid_written_to(session, "service"))
    await session.write("go", b"")
    assert (await command).returncode == 0


async def test_a_claim_whose_claimer_died_before_the_start_is_taken_over(session: EnvironmentSession) -> None:
    folder = Path(session.workdir).parent / "proc" / "process-p"
    folder.mkdir()
    claimer = start_claimer(folder / "lock")
    waiting = asyncio.create_task(session.start_process("p", "echo $$ > pid; exec sleep 600"))
    assert await session.process_status("p") is None
    claimer.kill()
    claimer.communicate()
    assert (await waiting).running
    assert await runs_inside(session, await pid_written_to(session, "pid"))


async def test_a_supervisor_whose_worker_died_while_handing_over_starts_nothing(
    session: EnvironmentSession,
) -> None:
    folder = Path(session.workdir).parent / "proc" / "process-p"
    folder.mkdir()
    supervisor = Path(process_table.__file__).with_name("supervisor.py")
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(supervisor), str(folder), str(lock.fileno())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(lock.fileno(),),
        )
        assert (await process.communicate(b'{"arguments": ["touch", "st'))[0] == b""
    assert process.returncode != 0
    assert await session.process_status("p") is None
    assert (await session.start_process("p", "exec sleep 600")).running


async def test_a_process_whose_supervisor_was_killed_runs_on_and_ends_without_a_status(
    session: EnvironmentSession,
) -> None:
    await session.start_process("p", "while [ ! -e go ]; do sleep 0.05; done")
    record = Path(session.workdir).parent / "proc" / "process-p" / "record.json"
    send_signal(ProcessIdentity.parse(json.loads(record.read_bytes())["supervisor"]), signal.SIGKILL)
    status = await session.process_status("p")
    assert status is not None and status.running
    await session.write("go", b"")

    async def is_over() -> bool:
        status = await session.process_status("p")
        return status is not None and not status.running

    await eventually(is_over, "the process ends")
    status = await session.process_status("p")
    assert status is not None and status.returncode is None


async def test_a_command_that_signals_its_whole_group_does_not_hit_its_supervisor(
    session: EnvironmentSession,
) -> None:
    await session.start_process("p", "kill -KILL 0")

    async def is_over() -> bool:
        status = await session.process_status("p")
        return status is not None and status.returncode == -9

    await eventually(is_over, "the status is recorded")


async def test_a_process_without_variables_parent_and_output_is_found_by_its_folder(
    session: EnvironmentSession,
) -> None:
    await session.exec(
        "(env -i PATH=\"$PATH\" setsid sh -c 'echo $$ > hidden; exec sleep 600' >/dev/null 2>&1 &)"
    )
    pid = await pid_written_to(session, "hidden")
    assert await session.end_all_processes() == 1
    assert not await runs_inside(session, pid)


async def test_an_environment_of_the_same_id_below_another_root_is_left_alone(
    described: ProviderUnderTest, session: EnvironmentSession, tmp_path: Path
) -> None:
    other = described.make(root=str(tmp_path / "other-root"))
    opened = await other.open(described.open_request(session.handle.id))
    try:
        await opened.exec("sleep 600 >/dev/null 2>&1 & echo $! > pid")
        pid = await pid_written_to(opened, "pid")
        await session.end_all_processes()
        assert await runs_inside(opened, pid)
    finally:
        await other.close(opened.handle)


@pytest.mark.parametrize("leave_session", ["", "setsid"])
async def test_processes_that_give_birth_and_die_all_the_time_are_ended(
    session: EnvironmentSession, leave_session: str
) -> None:
    await session.write("hop", f"sleep 0.05\necho x >> hops\n{leave_session} sh ./hop &\n".encode())
    result = await session.exec("sh ./hop & sh ./hop & sh ./hop & sleep 600", timeout_seconds=0.5)
    assert result.timed_out
    hops = await session.read("hops")
    assert len(hops) > 6
    assert await session.end_all_processes() == 0
    assert await session.read("hops") == hops


async def test_output_that_fits_is_complete_and_lies_in_the_named_file(session: EnvironmentSession) -> None:
    result = await session.exec("head -c 131072 /dev/zero")
    assert (len(result.stdout.head), len(result.stdout.tail)) == (65536, 65536)
    assert not result.stdout.truncated
    assert result.stdout.path is not None and os.stat(result.stdout.path).st_size == 131072


async def test_a_child_is_waited_for_where_there_is_no_pidfd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    process = start("exit 6")
    with exit_of(process) as ended:
        await asyncio.wait_for(ended, 30)
    assert process.wait() == 6


def test_an_identity_with_another_start_is_another_process() -> None:
    own = identity_of(os.getpid())
    assert own is not None and is_alive(own)
    earlier = ProcessIdentity(own.pid, "boot:1")
    assert not is_alive(earlier)
    send_signal(earlier, signal.SIGKILL)  # or this test would not go on
    assert ProcessIdentity.parse(str(own)) == own


def test_a_zombie_is_not_alive() -> None:
    process = subprocess.Popen(["sleep", "600"])
    identity = identity_of(process.pid)
    assert identity is not None and is_alive(identity)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert not is_alive(identity)
    process.wait()


def test_where_there_is_no_proc_ps_tells_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_table, "LINUX", False)
    process = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        [found] = [info for info in process_table.snapshot() if info.identity.pid == process.pid]
        assert (found.parent, found.group, found.has_terminal) == (os.getpid(), process.pid, False)
        assert found.text == "sleep 600"
        assert is_alive(found.identity)
    finally:
        process.kill()
        process.wait()
    assert not is_alive(found.identity)
