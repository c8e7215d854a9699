"""Ctrl-C: the first ends a run in order, the second leaves it to its worker."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from command_line import CommandLine, end_processes_of, processes_of, wait_for
from gated_runs import start_gated
from gates import Gates
from run_directory import status_of

SLEEP = f"98765.{os.getpid()}"
"""Seconds, by which the test finds its own processes."""


def sleepers() -> list[int]:
    """Processes that the commands of the test's tasks started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue  # it ended while we looked
        if line.split(b"\0")[:2] == [b"sleep", SLEEP.encode()]:
            found.append(int(folder.name))
    return found


def environments(command_line: CommandLine) -> list[str]:
    folder = command_line.home / "environments" / "host_process"
    return [path.name for path in folder.glob("*") if path.is_dir()]


@pytest.fixture(autouse=True)
def quiet_home(command_line: CommandLine) -> None:
    """Nothing of the tests before this one is counted as left behind by it."""
    end_processes_of(command_line.home)
    shutil.rmtree(command_line.home / "environments", ignore_errors=True)


def test_first_interrupt_ends_the_run_and_leaves_nothing_behind(command_line: CommandLine) -> None:
    rows = [{"id": f"t{number}", "command": f"sleep {SLEEP} & sleep {SLEEP}"} for number in range(3)]
    running = command_line.start(
        *("run", "command", "none", "none", "--benchmark-params", command_line.dataset(rows)),
        *("--progress", "plain"),
    )
    wait_for("all commands", lambda: len(sleepers()) == 6)
    assert len(environments(command_line)) == 3
    running.interrupt()
    ended = running.wait()

    assert ended.code == 130
    assert "Cancelling" in ended.stderr and "Traceback" not in ended.stderr
    assert sleepers() == [] and environments(command_line) == []
    [run_dir] = command_line.run_dirs
    assert status_of(run_dir) == "cancelled"
    assert json.loads((run_dir / "progress.json").read_bytes())["status"] == "cancelled"
    wait_for("the worker's leaving", lambda: not processes_of(command_line.home))


def test_tasks_that_were_finished_before_an_interrupt_are_kept(command_line: CommandLine) -> None:
    gates = Gates(command_line.folder / "gates")
    gates.close("second", "execute_task")
    running = start_gated(command_line, gates, tasks=["first", "second", "third"])
    gates.wait("second", "execute_task")
    running.interrupt()

    running.wait().expect(130)
    [run_dir] = command_line.run_dirs
    assert json.loads((run_dir / "details" / "first.json").read_bytes())["attempts"]["1"]["metrics"] == {
        "correct": True
    }
    assert ("third", "build_plan", "began") not in gates.calls()
    assert environments(command_line) == []


def test_second_interrupt_leaves_at_once_and_says_how_to_come_back(command_line: CommandLine) -> None:
    gates = Gates(command_line.folder / "gates")
    gates.close("only", "execute_task")
    gates.close("only", "close")
    running = start_gated(command_line, gates, tasks=["only"])
    launch = running.launch_id
    gates.wait("only", "execute_task")
    running.interrupt()
    gates.wait("only", "close")  # it ends, and takes its time
    running.interrupt()
    ended = running.wait()

    assert ended.code == 130
    assert f"agentcompass attach {launch}" in ended.stderr
    gates.open("only", "close")
    attached = command_line.run("attach", launch, env=gates.env)
    assert attached.code == 130
    assert status_of(command_line.run_dirs[0]) == "cancelled"
    assert environments(command_line) == []
