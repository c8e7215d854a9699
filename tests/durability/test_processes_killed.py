"""``kill -9`` of command, worker and server in every combination, and how a launch goes on."""

from __future__ import annotations

import os
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import CommandLine, Running, is_alive, kill_and_wait, processes_of, wait_for
from gated_runs import QUICK_HEARTBEAT, SLOW_HEARTBEAT, run_gated, start_gated
from gated_runs import make_command_line as make
from gates import Gates
from run_directory import assert_progress_is_whole, comparable, status_of

TASKS = ["first", "middle", "last"]
SERVER_IS_BACK = "The Temporal server was gone; started it again"


@dataclass(frozen=True)
class Undisturbed:
    """What a run without a kill leaves."""

    directory: dict[str, object]
    calls: Counter[tuple[str, str, str]]


@pytest.fixture(scope="module")
def undisturbed(embedded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    command_line = make(embedded_home, tmp_path_factory.mktemp("undisturbed"))
    gates = Gates(command_line.folder / "gates")
    run_gated(command_line, gates, tasks=TASKS).expect(0)
    return Undisturbed(comparable(command_line.run_dirs[0]), gates.calls())


@pytest.fixture
def gates(command_line: CommandLine) -> Gates:
    """The middle task will stop while its agent works."""
    gates = Gates(command_line.folder / "gates")
    gates.close("middle", "execute_task")
    return gates


def kill_server(command_line: CommandLine) -> int:
    """Kill it; returns the process id that it had."""
    server = command_line.server_pid
    kill_and_wait(server)
    return server


def wait_for_another_server(command_line: CommandLine, before: int) -> None:
    wait_for(
        "another server",
        lambda: command_line.server_pid != before and is_alive(command_line.server_pid),
    )


def assert_went_on(
    command_line: CommandLine, gates: Gates, undisturbed: Undisturbed, *, repeated: dict[object, int]
) -> None:
    """The run is what it would have been, and nothing is left running."""
    [run_dir] = command_line.run_dirs
    found = comparable(run_dir)
    for part, expected in undisturbed.directory.items():
        assert found[part] == expected, part
    assert_progress_is_whole(run_dir)
    assert gates.calls() - undisturbed.calls == repeated
    wait_for("the worker's leaving", lambda: not processes_of(command_line.home))


NOTHING: dict[object, int] = {}
THE_RUNNING_ACTIVITY: dict[object, int] = {
    ("middle", "start_session", "began"): 1,
    ("middle", "start_session", "ended"): 1,
    ("middle", "execute_task", "began"): 1,
}
"""Turns are not among them: those that the agent had taken are not taken again."""


def test_worker_goes_on_without_its_command_and_attach_tells_the_result(
    command_line: CommandLine, gates: Gates, undisturbed: Undisturbed
) -> None:
    running = start_gated(command_line, gates, tasks=TASKS)
    launch = running.launch_id
    gates.wait("middle", "execute_task")
    running.kill()
    gates.open("middle", "execute_task")
    [run_dir] = command_line.run_dirs
    wait_for("the end of the run", lambda: status_of(run_dir) == "completed")

    attached = command_line.run("attach", launch).expect(0)
    assert str(run_dir) in attached.stdout
    assert_went_on(command_line, gates, undisturbed, repeated=NOTHING)


def test_attach_goes_on_after_command_and_worker_were_killed(
    command_line: CommandLine, gates: Gates, undisturbed: Undisturbed
) -> None:
    running = start_gated(command_line, gates, tasks=TASKS, heartbeat=QUICK_HEARTBEAT)
    launch = running.launch_id
    worker = gates.wait("middle", "execute_task")
    running.kill()
    kill_and_wait(worker)
    gates.open("middle", "execute_task")

    command_line.run("attach", launch, env=gates.env).expect(0)
    assert_went_on(command_line, gates, undisturbed, repeated=THE_RUNNING_ACTIVITY)


def test_command_starts_a_killed_server_again_and_its_worker_keeps_its_work(
    command_line: CommandLine, gates: Gates, undisturbed: Undisturbed
) -> None:
    running = start_gated(command_line, gates, tasks=TASKS, heartbeat=SLOW_HEARTBEAT)
    worker = gates.wait("middle", "execute_task")
    kill_server(command_line)
    wait_for("the server's return", lambda: SERVER_IS_BACK in running.stderr)
    gates.open("middle", "execute_task")

    running.wait().expect(0)
    assert {entry.pid for entry in gates.entries()} == {worker}
    assert_went_on(command_line, gates, undisturbed, repeated=NOTHING)


def test_server_comes_back_on_another_port_when_its_own_was_taken(
    command_line: CommandLine, gates: Gates, undisturbed: Undisturbed
) -> None:
    running = start_gated(command_line, gates, tasks=TASKS, heartbeat=QUICK_HEARTBEAT)
    worker = gates.wait("middle", "execute_task")
    before = command_line.server_port
    with stopped(running), socket.socket() as stranger:
        kill_server(command_line)
        # A killed server keeps its port for a moment after its death.
        wait_for("its port", lambda: took(stranger, before))
        resume(running)
        wait_for("the server's return", lambda: SERVER_IS_BACK in running.stderr)
    assert command_line.server_port != before
    wait_for("another worker", lambda: running.worker_pid != worker)
    gates.open("middle", "execute_task")

    running.wait().expect(0)
    [run_dir] = command_line.run_dirs
    assert status_of(run_dir) == "completed"
    assert_progress_is_whole(run_dir)


def test_attach_goes_on_after_command_and_server_were_killed(
    command_line: CommandLine, gates: Gates, undisturbed: Undisturbed
) -> None:
    running = start_gated(command_line, gates, tasks=TASKS, heartbeat=SLOW_HEARTBEAT)
    launch = running.launch_id
    gates.wait("middle", "execute_task")
    running.kill()
    server = kill_server(command_line)

    attached = command_line.start("attach", launch, env=gates.env)
    wait_for_another_server(command_line, server)
    gates.open("middle", "execute_task")
    attached.wait().expect(0)
    assert_went_on(command_line, gates, undisturbed, repeated=NOTHING)


def test_attach_goes_on_after_everything_was_killed(
    command_line: CommandLine, gates: Gates, undisturbed: Undisturbed
) -> None:
    running = start_gated(command_line, gates, tasks=TASKS, heartbeat=QUICK_HEARTBEAT)
    launch = running.launch_id
    worker = gates.wait("middle", "execute_task")
    running.kill()
    kill_and_wait(worker)
    kill_server(command_line)
    gates.open("middle", "execute_task")

    command_line.run("attach", launch, env=gates.env).expect(0)
    assert_went_on(command_line, gates, undisturbed, repeated=THE_RUNNING_ACTIVITY)


def took(stranger: socket.socket, port: int) -> bool:
    """Whether another program could take the port."""
    stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        stranger.bind(("127.0.0.1", port))
    except OSError:
        return False
    stranger.listen()
    return True


@contextmanager
def stopped(running: Running) -> Iterator[None]:
    """The command stands still, until :func:`resume`."""
    os.kill(running.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        resume(running)


def resume(running: Running) -> None:
    os.kill(running.pid, signal.SIGCONT)
