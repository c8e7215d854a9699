"""Signals from inside an environment reach nothing outside of it, also as root.

Every command looks first whether it is where it should be: run on the machine itself, they would end it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine, kill_and_wait, running_with, wait_for
from docker_engine import give_up
from environment_providers import ProviderUnderTest, runs_inside
from processes_inside import seen_here

from agentcompass.contracts import EnvironmentSession, EnvironmentSpec, UsageError
from agentcompass.plugins.environments.host_process import HostProcess, HostProcessParams
from agentcompass.plugins.environments.host_process.directory import EnvironmentDirectory
from agentcompass.plugins.environments.host_process.process_space import ProcessSpace, why_unavailable
from agentcompass.plugins.environments.host_process.process_table import identity_of, is_alive

OURS = os.readlink("/proc/self/ns/pid") if sys.platform.startswith("linux") else ""
GUARD = f'[ "$(readlink /proc/self/ns/pid)" != "{OURS}" ] || exit 99; '
NAME = f"agentcompass-bystander-{uuid.uuid4().hex}"


@pytest.fixture(autouse=True)
def possible_here() -> None:
    problem = why_unavailable()
    if problem:
        give_up(f"no process tables of their own here: {problem}")


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the machine that has nothing to do with any environment."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", NAME])
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    "shot", ["kill -9 -1", "pkill -9 -f NAME", "kill -TERM -1", "killall -9 -u root sleep"]
)
async def test_a_shot_at_everything_hits_what_is_inside_only(
    session: EnvironmentSession, bystander: subprocess.Popen[bytes], shot: str
) -> None:
    await session.start_process("service", "exec sleep 1000")
    shot = shot.replace("NAME", f"[{NAME[0]}]{NAME[1:]}")  # which is not the command itself
    result = await session.exec(f"{GUARD}{shot}; echo still here")
    assert result.stdout.text == "still here\n"
    assert bystander.poll() is None
    assert (await session.exec("echo on")).stdout.text == "on\n"


async def test_commands_of_an_environment_see_one_another_and_nobody_else(
    session: EnvironmentSession, bystander: subprocess.Popen[bytes]
) -> None:
    await session.exec(f"{GUARD}sleep 1000 >/dev/null 2>&1 & echo $! > pid")
    here = await seen_here(session, "pid")
    seen = (await session.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).stdout.text
    assert "sleep 1000" in seen and NAME not in seen
    assert (await session.exec("kill $(cat pid)")).ok
    wait_for("the end of a process that a later command has signalled", lambda: not is_alive(here))


async def test_nothing_outlives_the_end_of_all_processes_however_well_it_hides(
    session: EnvironmentSession, tmp_path: Path
) -> None:
    mark = tmp_path / uuid.uuid4().hex
    mark.touch()
    hidden = f'(cd / && env -i PATH="$PATH" setsid tail -f {mark} >/dev/null 2>&1 &)'
    await session.exec(f"{GUARD}{hidden}")
    wait_for("a process that has left session, folder and variables", lambda: running_with(str(mark)))
    assert await session.end_all_processes() == 1
    assert running_with(str(mark)) == []


async def test_the_holder_goes_with_its_environment_and_outlives_its_worker(
    described: ProviderUnderTest, host: HostProcess, session: EnvironmentSession
) -> None:
    worker = await described.start_other_process(
        session.handle, "start_and_follow", "p", "echo on; exec sleep 1000"
    )
    assert worker.stdout is not None and await worker.stdout.readline()
    holder = ProcessSpace(host_directory(host, session)).holder
    assert holder is not None
    worker.send_signal(signal.SIGKILL)
    await worker.wait()
    status = await session.process_status("p")
    assert status is not None and status.running and is_alive(holder)
    await host.close(session.handle)
    assert not is_alive(holder)


async def test_a_killed_holder_takes_everything_along_and_the_next_command_gets_another_one(
    host: HostProcess, session: EnvironmentSession
) -> None:
    await session.exec(f"{GUARD}sleep 1000 >/dev/null 2>&1 & echo $! > pid")
    sleeper = await seen_here(session, "pid")
    holder = ProcessSpace(host_directory(host, session)).holder
    assert holder is not None
    await asyncio.to_thread(kill_and_wait, holder.pid)
    await asyncio.to_thread(wait_for, "the end of all inside", lambda: not is_alive(sleeper))
    assert (await session.exec("echo on")).stdout.text == "on\n"


async def test_a_forged_record_of_the_holder_is_not_believed(
    host: HostProcess, session: EnvironmentSession, bystander: subprocess.Popen[bytes]
) -> None:
    await session.exec("true")
    directory = host_directory(host, session)
    (directory.proc / "space").write_text(str(identity_of(bystander.pid)))
    await session.end_all_processes()
    assert bystander.poll() is None
    assert (await session.exec(f"{GUARD}echo inside")).stdout.text == "inside\n"


async def test_two_environments_do_not_reach_each_other(
    described: ProviderUnderTest, host: HostProcess
) -> None:
    one, other = [await host.open(described.open_request()) for _ in range(2)]
    try:
        await other.exec("sleep 1000 >/dev/null 2>&1 & echo $! > pid")
        await one.exec(f"{GUARD}kill -9 -1")
        assert await runs_inside(other, int((await other.read("pid")).decode()))
    finally:
        for session in (one, other):
            await host.close(session.handle)


async def test_it_can_be_demanded_and_done_without(
    described: ProviderUnderTest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shared = described.make(private_processes="never")
    opened = await shared.open(described.open_request())
    assert (await opened.exec("readlink /proc/self/ns/pid")).stdout.text.strip() == OURS
    await shared.close(opened.handle)

    why_unavailable.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    try:
        with pytest.raises(UsageError, match=r"private_processes is 'always'.*unshare"):
            await described.make(private_processes="always").preflight(EnvironmentSpec(id="host_process"))
    finally:
        why_unavailable.cache_clear()


def test_a_task_that_shoots_at_everything_costs_the_run_nothing(command_line: CommandLine) -> None:
    """Worker, server and command line have the name in their command lines."""
    shots = "pkill -9 -f '[a]gentcompass'; pkill -9 '[p]ython'; pkill -9 temporal; kill -9 -1; echo survived"
    rows = [
        {"id": f"t{number}", "command": GUARD + shots, "expected_stdout": "survived"} for number in range(3)
    ]
    server = command_line.server_pid
    ended = command_line.run(
        *("run", "command", "none", "none", "--benchmark-params", command_line.dataset(rows))
    )
    ended.expect(0)
    assert "another worker" not in ended.stderr
    assert command_line.server_pid == server


def host_directory(host: HostProcess, session: EnvironmentSession):  # type: ignore[no-untyped-def]
    return EnvironmentDirectory.of(host._root, session.handle)


def test_a_user_without_rights_is_protected_too() -> None:
    """In a copy of this process that has given its rights up: other users cannot read every interpreter."""
    if os.geteuid() != 0:
        pytest.skip("all the other tests are that")
    with tempfile.TemporaryDirectory() as folder:
        command = f"{GUARD}sleep 1000 & kill -9 -1; id -u; cat /proc/[0-9]*/comm | grep -c sleep"
        asyncio.run(_printed(Path(folder) / "root", command))  # so that all modules are loaded
        os.chown(folder, 65534, 65534)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                why_unavailable.cache_clear()
                os.write(writer, asyncio.run(_printed(Path(folder) / "nobody", command)).encode())
            except BaseException as error:
                os.write(writer, repr(error).encode())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            assert stream.read() == b"65534\n1\n"  # its first process
        os.waitpid(child, 0)
        assert os.listdir(Path(folder) / "nobody") == []


async def _printed(root: Path, command: str) -> str:
    host = HostProcess(HostProcessParams(root=root, private_processes="always"))
    described = ProviderUnderTest("", {}, EnvironmentSpec(id="host_process"))
    session = await host.open(described.open_request())
    try:
        return (await session.exec(command)).stdout.text
    finally:
        await host.close(session.handle)
