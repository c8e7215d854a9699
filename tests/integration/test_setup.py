"""A cluster that knows nothing of us: what refuses, and how ``agentcompass setup`` prepares it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import CommandLine, wait_for
from gated_runs import make_command_line

from agentcompass.cli.embedded_server import EmbeddedServer
from agentcompass.cli.server_process import Ports
from agentcompass.contracts.search_attributes import SEARCH_ATTRIBUTES

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
    again = cluster.run("setup", "--json").expect(0).json
    assert (again["created_namespace"], again["added_search_attributes"]) == (False, [])
    assert again["present_search_attributes"] == list(SEARCH_ATTRIBUTES)
    assert "Nothing to do." in cluster.run("setup").expect(0).stdout


def test_prepared_cluster_takes_a_run_and_says_that_no_worker_is_there(cluster: CommandLine) -> None:
    cluster.run("setup").expect(0)
    qa = ("run", "qa", "oracle", "none", "--benchmark-params", cluster.dataset(ROWS))
    following = cluster.start(*qa, "--progress", "none", env={"AGENTCOMPASS_TASK_QUEUE": "mine"})
    wait_for("the note", lambda: "no worker polls the task queue 'mine'" in following.stderr)
    worker = cluster.start("worker", "--task-queue", "mine", "--concurrency", "8")
    ended = following.wait().expect(0)
    worker.end()
    assert "1/1 tasks evaluated" in ended.stdout
