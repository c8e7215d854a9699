"""SIGTERM for a worker of a fleet in the middle of a run: it ends what it has, takes no more, and leaves with 0."""

from __future__ import annotations

from pathlib import Path

from cluster import Cluster
from command_line import is_alive, wait_for
from gated_runs import SLOW_HEARTBEAT, start_gated
from gates import Gates

TASKS = ["one", "two", "three", "four"]


def test_what_a_draining_worker_runs_ends_there_and_all_else_elsewhere(
    cluster: Cluster, tmp_path: Path
) -> None:
    gates = Gates(tmp_path / "gates")
    first = cluster.worker("--drain-seconds", "60", env=gates.env)
    gates.close("one", "execute_task")
    run = start_gated(cluster.command_line, gates, tasks=TASKS, heartbeat=SLOW_HEARTBEAT)
    assert gates.wait("one", "execute_task") == first.pid
    second = cluster.worker(env=gates.env)

    first.terminate()
    wait_for("its word", lambda: "draining" in first.stderr)
    assert is_alive(first.pid)
    gates.open("one", "execute_task")
    run.wait().expect(0)
    first.wait().expect(0)

    executed = [
        (entry.task, entry.pid)
        for entry in gates.entries()
        if (entry.hook, entry.what) == ("execute_task", "ended")
    ]
    assert executed == [("one", first.pid), *((task, second.pid) for task in TASKS[1:])]
    second.terminate()
    second.wait().expect(0)


def test_what_does_not_end_in_time_is_handed_on(cluster: Cluster, tmp_path: Path) -> None:
    gates = Gates(tmp_path / "gates")
    first = cluster.worker("--drain-seconds", "1", env=gates.env)
    gates.close("one", "execute_task")
    run = start_gated(cluster.command_line, gates, tasks=["one"])
    gates.wait("one", "execute_task")
    second = cluster.worker(env=gates.env)

    first.terminate()
    first.wait().expect(0)
    gates.open("one", "execute_task")
    run.wait().expect(0)
    ended = [entry.pid for entry in gates.entries() if (entry.hook, entry.what) == ("execute_task", "ended")]
    assert ended[-1] == second.pid
