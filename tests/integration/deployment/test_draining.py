"""SIGTERM for a worker of a fleet in the middle of a run: it ends what it has, takes no more, and leaves with 0."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cluster import Cluster
from command_line import is_alive, wait_for
from gated_runs import SLOW_HEARTBEAT, start_gated
from gates import Gates
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest

from agentcompass.contracts.workflows import places_queue

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


async def test_a_new_worker_serves_those_that_wait_for_a_pool_that_is_gone(cluster: Cluster) -> None:
    worker = cluster.worker()
    client = await cluster.client()
    asked = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=places_queue(cluster.queue)),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
    )
    async with asyncio.timeout(60):
        while not (await client.workflow_service.describe_task_queue(asked)).pollers:  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.1)
    worker.terminate()
    worker.wait().expect(0)


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
