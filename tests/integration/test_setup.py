"""A cluster that knows nothing of us: what refuses, and how ``agentcompass setup`` prepares it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import PATIENCE_SECONDS, CommandLine, wait_for
from gated_runs import make_command_line
from temporalio.client import Client, ScheduleActionExecutionStartWorkflow, WorkflowExecutionStatus

from agentcompass.activities.data_converter import data_converter
from agentcompass.cli.embedded_server import EmbeddedServer
from agentcompass.cli.server_process import Ports
from agentcompass.contracts.search_attributes import SEARCH_ATTRIBUTES
from agentcompass.contracts.upkeep import SweepReport
from agentcompass.contracts.workflows import POOL_WORKFLOW, REAPER_SCHEDULE

ROWS = [{"id": "q1", "question": "2 + 2?", "answer": "4"}]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server without our search attributes."""
    server = EmbeddedServer(
        tmp_path_factory.mktemp("cluster"),
        search_attributes={},
        preferred_ports=Ports(free_port(), free_port()),
    )
    try:
        yield asyncio.run(server.ensure()).address
    finally:
        asyncio.run(server.stop())


@pytest.fixture
def cluster(address: str, tmp_path: Path) -> Iterator[CommandLine]:
    """The command line with that server as its cluster, and a namespace that is not there."""
    command_line = make_command_line(tmp_path / "home", tmp_path)
    command_line.env |= {"TEMPORAL_ADDRESS": address, "TEMPORAL_NAMESPACE": f"n-{tmp_path.name[-20:]}"}
    yield command_line
    command_line.end_all()


def test_run_is_refused_with_the_command_that_helps(cluster: CommandLine) -> None:
    qa = ("run", "qa", "oracle", "none", "--benchmark-params", cluster.dataset(ROWS))
    embedded = {"TEMPORAL_NAMESPACE": "agentcompass"}
    [error] = cluster.run(*qa, env=embedded).expect(2).errors
    assert "AgentCompassTask" in error and error.endswith("run this once: agentcompass setup")
    [error] = cluster.run(*qa).expect(3).errors
    assert "agentcompass setup" in error


def test_setup_makes_what_is_missing_and_then_nothing(cluster: CommandLine) -> None:
    done = cluster.run("setup", "--json").expect(0).json
    assert done["created_namespace"] is True
    assert done["added_search_attributes"] == list(SEARCH_ATTRIBUTES)
    assert done["created_schedule"] is True
    again = cluster.run("setup", "--json").expect(0).json
    assert (again["created_namespace"], again["added_search_attributes"]) == (False, [])
    assert again["created_schedule"] is False
    assert again["present_search_attributes"] == list(SEARCH_ATTRIBUTES)
    assert "Nothing to do." in cluster.run("setup").expect(0).stdout


def test_prepared_cluster_takes_a_run_and_says_that_no_worker_is_there(cluster: CommandLine) -> None:
    cluster.run("setup").expect(0)
    qa = ("run", "qa", "oracle", "none", "--benchmark-params", cluster.dataset(ROWS))
    following = cluster.start(
        *(*qa, "--progress", "none", "--env-open-qps", "host_process=20"),
        env={"AGENTCOMPASS_TASK_QUEUE": "mine"},
    )
    wait_for("the note", lambda: "no worker polls the task queue 'mine'" in following.stderr)
    worker = cluster.start("worker", "--task-queue", "mine", "--concurrency", "8")
    ended = following.wait().expect(0)
    assert "1/1 tasks evaluated" in ended.stdout
    # Its rate holds over all workers: it took its turn from a pool, which ends by itself.
    wait_for(
        "the end of the pool", lambda: asyncio.run(pools(cluster)) == [WorkflowExecutionStatus.COMPLETED]
    )
    worker.end()


async def pools(cluster: CommandLine) -> list[WorkflowExecutionStatus | None]:
    """The states of all pools that ever were."""
    client = await Client.connect(
        cluster.env["TEMPORAL_ADDRESS"], namespace=cluster.env["TEMPORAL_NAMESPACE"]
    )
    return [item.status async for item in client.list_workflows(f"WorkflowType = '{POOL_WORKFLOW}'")]


def test_schedule_looks_after_environments_as_soon_as_there_is_a_worker(cluster: CommandLine) -> None:
    cluster.env["AGENTCOMPASS_TASK_QUEUE"] = "looked-after"
    cluster.run("setup").expect(0)
    worker = cluster.start("worker", "--task-queue", "looked-after", "--concurrency", "8")
    report = asyncio.run(asyncio.wait_for(swept(cluster), PATIENCE_SECONDS))
    worker.end()
    assert (report.released, report.failed, report.problems) == ([], [], [])


async def swept(cluster: CommandLine) -> SweepReport:
    """What the schedule's workflow returned."""
    client = await Client.connect(
        cluster.env["TEMPORAL_ADDRESS"],
        namespace=cluster.env["TEMPORAL_NAMESPACE"],
        data_converter=data_converter(),
    )
    schedule = client.get_schedule_handle(REAPER_SCHEDULE)
    await schedule.trigger()
    while not (actions := (await schedule.describe()).info.recent_actions):  # noqa: ASYNC110  # nobody tells
        await asyncio.sleep(0.05)
    action = actions[-1].action
    assert isinstance(action, ScheduleActionExecutionStartWorkflow)
    handle = client.get_workflow_handle(action.workflow_id, result_type=SweepReport)
    return await handle.result()
