"""The embedded Temporal server, tried with the real one: start, share, heal, stop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio import workflow
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, ListTaskQueuePartitionsRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from agentcompass.cli import embedded_server, process_identity
from agentcompass.cli.embedded_server import (
    NAMESPACE,
    EmbeddedServer,
    ServerInfo,
    ServerStartError,
)
from agentcompass.cli.server_process import Ports
from agentcompass.cli.server_state import ServerFiles, ServerState
from agentcompass.contracts import ConfigurationError

TWO_ATTRIBUTES = {"AgentCompassLaunch": "Keyword", "AgentCompassTask": "Keyword"}
TASK = SearchAttributeKey.for_keyword("AgentCompassTask")


def free_ports() -> Ports:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return Ports(one.getsockname()[1], two.getsockname()[1])


def make_server(home: Path) -> EmbeddedServer:
    return EmbeddedServer(home, search_attributes=TWO_ATTRIBUTES, preferred_ports=free_ports())


async def client_of(info: ServerInfo) -> Client:
    return await Client.connect(info.address, namespace=info.namespace)


def idle_process() -> subprocess.Popen[bytes]:
    """A process that ends when its input is closed, by `communicate()`."""
    return subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    """A server of its own for a test that breaks it; not started yet."""
    server = make_server(tmp_path / "home")
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A running server for the tests that only look."""
    server = make_server(tmp_path_factory.mktemp("shared") / "home")
    try:
        asyncio.run(server.ensure())
        yield server
    finally:
        asyncio.run(server.stop())


@workflow.defn
class FiveShortTimers:
    @workflow.run
    async def run(self) -> None:
        for _ in range(5):
            await workflow.sleep(timedelta(milliseconds=10))


# --- a running server -----------------------------------------------------------------------


async def test_first_ensure_starts_a_detached_server_and_the_second_finds_it(server: EmbeddedServer) -> None:
    first = await server.ensure()
    began = time.perf_counter()
    second = await server.ensure()
    assert time.perf_counter() - began < 0.5  # 5 ms on an idle machine

    assert first.started and not second.started
    assert (first.pid, first.address, first.namespace) == (second.pid, second.address, NAMESPACE)
    assert os.getsid(first.pid) == first.pid, "a Ctrl-C at our terminal would reach it"
    await client_of(second)


async def test_status_describes_the_running_server(shared: EmbeddedServer) -> None:
    info = await shared.ensure()
    status = shared.status()
    assert status.running
    assert (status.pid, status.address, status.ui_address) == (info.pid, info.address, info.ui_address)
    assert status.version == info.version != ""
    assert status.uptime is not None and timedelta(0) < status.uptime < timedelta(minutes=5)
    assert status.db_bytes > 0 and status.db_path.is_file()


async def test_namespace_keeps_histories_for_30_days(shared: EmbeddedServer) -> None:
    client = await client_of(await shared.ensure())
    answer = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=NAMESPACE))
    assert answer.config.workflow_execution_retention_ttl.ToTimedelta() == timedelta(days=30)


async def test_search_attributes_are_registered(shared: EmbeddedServer) -> None:
    client = await client_of(await shared.ensure())
    answer = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=NAMESPACE)
    )
    assert set(answer.custom_attributes) == set(TWO_ATTRIBUTES)


async def test_database_is_in_wal_mode_and_private(shared: EmbeddedServer) -> None:
    path = shared.status().db_path
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    home = path.parent.parent
    assert {home.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777} == {0o700}
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
    assert len(list(path.parent.glob("temporal.db*"))) == 3


async def test_server_settings_take_effect(shared: EmbeddedServer) -> None:
    """One partition a queue instead of 4, and five timers of 10 ms without a second for each."""
    client = await client_of(await shared.ensure())
    partitions = await client.workflow_service.list_task_queue_partitions(
        ListTaskQueuePartitionsRequest(namespace=NAMESPACE, task_queue=TaskQueue(name="timers"))
    )
    assert len(partitions.activity_task_queue_partitions) == 1
    assert len(partitions.workflow_task_queue_partitions) == 1
    async with Worker(
        client,
        task_queue="timers",
        workflows=[FiveShortTimers],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        began = time.perf_counter()
        await client.execute_workflow(FiveShortTimers.run, id="timers", task_queue="timers")
    assert time.perf_counter() - began < 3.0  # more than 5 s with the server's default


async def test_attribute_of_a_newer_version_is_added_to_the_running_server(server: EmbeddedServer) -> None:
    first = await server.ensure()
    newer = EmbeddedServer(
        server.status().db_path.parent.parent,
        search_attributes={**TWO_ATTRIBUTES, "AgentCompassNew": "KeywordList"},
    )
    second = await newer.ensure()
    assert second.pid == first.pid
    client = await client_of(second)
    new = SearchAttributeKey.for_keyword_list("AgentCompassNew")
    await client.start_workflow(
        "Any",
        id="uses-the-new-attribute",
        task_queue="nobody",
        search_attributes=TypedSearchAttributes([SearchAttributePair(new, ["a", "b"])]),
    )
    assert not (await server.ensure()).started, "the older version is content with more attributes"

    clash = EmbeddedServer(newer.status().db_path.parent.parent, search_attributes={TASK.name: "Int"})
    with pytest.raises(ServerStartError, match="AgentCompassTask exists with another type"):
        await clash.ensure()
    assert server.status().pid == first.pid, "a failed set-up must not end a server that others use"


# --- several commands at once ---------------------------------------------------------------

ENSURE_IN_ANOTHER_PROCESS = """
import asyncio, os, sys
from pathlib import Path
from agentcompass.cli.embedded_server import EmbeddedServer
from agentcompass.cli.server_process import Ports

home, grpc, ui = sys.argv[1:]
server = EmbeddedServer(Path(home), search_attributes={}, preferred_ports=Ports(int(grpc), int(ui)))
print("ready", flush=True)
sys.stdin.readline()
info = asyncio.run(server.ensure())
print(info.pid, info.started, flush=True)
os._exit(0)
"""


async def test_two_processes_start_one_server_which_outlives_them(tmp_path: Path) -> None:
    home, ports = tmp_path / "home", free_ports()
    server = EmbeddedServer(home, search_attributes={}, preferred_ports=ports)
    command = [sys.executable, "-c", ENSURE_IN_ANOTHER_PROCESS, str(home), str(ports.grpc), str(ports.ui)]
    pipe = asyncio.subprocess.PIPE
    callers = [await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe) for _ in range(2)]
    try:
        for caller in callers:
            assert caller.stdout is not None
            assert await caller.stdout.readline() == b"ready\n"
        answers = await asyncio.gather(*(caller.communicate(b"go\n") for caller in callers))
        results = [answer.decode().split() for answer, _ in answers]
        assert {pid for pid, _ in results} == {str(server.status().pid)}
        assert sorted(started for _, started in results) == ["False", "True"]
        assert not (await server.ensure()).started
    finally:
        for caller in callers:
            if caller.returncode is None:
                caller.kill()
                await caller.wait()
        await server.stop()


async def test_lock_of_a_killed_process_does_not_block(server: EmbeddedServer) -> None:
    files = ServerFiles(server.status().db_path.parent.parent)
    files.prepare()
    code = "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX); print('held', flush=True); input()"
    pipe = asyncio.subprocess.PIPE
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(files.change_lock), stdin=pipe, stdout=pipe
    )
    try:
        assert holder.stdout is not None and await holder.stdout.readline() == b"held\n"
        ensuring = asyncio.create_task(server.ensure())
        done, _ = await asyncio.wait([ensuring], timeout=1.0)
        assert not done, "ensure() must wait for the lock"
    finally:
        holder.kill()
        await holder.wait()
    assert (await ensuring).started


# --- healing --------------------------------------------------------------------------------


async def test_killed_server_is_started_again_with_its_workflows(server: EmbeddedServer) -> None:
    first = await server.ensure()
    client = await client_of(first)
    await client.start_workflow(
        "Any",
        id="survivor",
        task_queue="nobody",
        search_attributes=TypedSearchAttributes([SearchAttributePair(TASK, "t-1")]),
    )
    os.kill(first.pid, signal.SIGKILL)
    second = await server.ensure()

    assert second.started and second.pid != first.pid and second.address == first.address
    client = await client_of(second)
    description = await client.get_workflow_handle("survivor").describe()
    assert description.status == WorkflowExecutionStatus.RUNNING
    assert description.typed_search_attributes[TASK] == "t-1"


async def test_server_whose_starter_died_is_waited_for(server: EmbeddedServer) -> None:
    """The state says that a server was started, not that it became ready."""
    first = await server.ensure()
    files = ServerFiles(server.status().db_path.parent.parent)
    state = files.read_state()
    assert state is not None
    files.write_state(state.model_copy(update={"ready": False, "version": ""}))
    second = await server.ensure()
    assert (second.pid, second.started, second.version) == (first.pid, False, first.version)


async def test_foreign_process_with_the_recorded_id_is_left_alone(server: EmbeddedServer) -> None:
    files = ServerFiles(server.status().db_path.parent.parent)
    files.prepare()
    stranger = idle_process()
    try:
        ports = free_ports()
        state = ServerState(
            pid=stranger.pid,
            start_marker="the marker of an earlier process",
            grpc_port=ports.grpc,
            ui_port=ports.ui,
            db_path=files.database,
            started_at=datetime.now(UTC),
            ready=True,
            search_attributes=TWO_ATTRIBUTES,
        )
        files.write_state(state)
        assert not server.status().running
        assert await server.stop() is False
        files.write_state(state)
        info = await server.ensure()
        assert info.started and info.address == f"127.0.0.1:{ports.grpc}"
        assert stranger.poll() is None
    finally:
        stranger.communicate()


async def test_taken_port_is_replaced_and_the_new_one_is_remembered(server: EmbeddedServer) -> None:
    first = await server.ensure()
    await server.stop()
    port = int(first.address.rpartition(":")[2])
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        second = await server.ensure()
        assert second.address != first.address
    await server.stop()
    assert (await server.ensure()).address == second.address


async def test_other_server_on_our_port_is_not_taken_for_ours(
    server: EmbeddedServer, shared: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one took the port after we looked: it answers, has our namespace, and is not ours."""
    other = await shared.ensure()
    taken = Ports(int(other.address.rpartition(":")[2]), free_ports().ui)
    monkeypatch.setattr(embedded_server, "choose_ports", lambda _: taken)
    info = await server.ensure()
    assert info.started and info.address != other.address
    assert server.status().pid == info.pid != other.pid


async def test_database_in_use_is_not_opened_twice(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its state file the server is unknown to us, as one in another container would be."""
    info = await server.ensure()
    files = ServerFiles(server.status().db_path.parent.parent)
    content = files.state.read_bytes()
    monkeypatch.setattr(embedded_server, "RUNNING_LOCK_SECONDS", 0.1)
    try:
        files.state.write_text("{ damaged")
        with pytest.raises(ServerStartError, match=r"already uses .*temporal\.db"):
            await server.ensure()
    finally:
        files.state.write_bytes(content)
    assert server.status().pid == info.pid


async def test_server_that_cannot_start_shows_its_log(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "temporal"
    broken.write_text("#!/bin/sh\necho 'no luck today' >&2\nexit 3\n")
    broken.chmod(0o700)
    monkeypatch.setenv("AGENTCOMPASS_TEMPORAL_BINARY", str(broken))
    with pytest.raises(ServerStartError, match=r"(?s)ended while it started.*no luck today"):
        await server.ensure()
    monkeypatch.setenv("AGENTCOMPASS_TEMPORAL_BINARY", str(tmp_path / "absent"))
    with pytest.raises(ServerStartError, match="is not an executable file"):
        await server.ensure()


async def test_home_that_is_a_file_is_refused_by_name(tmp_path: Path) -> None:
    home = tmp_path / "taken"
    home.touch()
    with pytest.raises(ConfigurationError, match=rf"AGENTCOMPASS_HOME {home} is a file"):
        await EmbeddedServer(home).ensure()


# --- stopping ---------------------------------------------------------------------------------


async def test_stop_is_polite_when_nothing_runs(server: EmbeddedServer) -> None:
    assert await server.stop() is False
    info = await server.ensure()
    assert await server.stop() is True
    assert process_identity.start_marker(info.pid) is None
    assert await server.stop() is False
    status = server.status()
    assert not status.running and status.address is None and status.db_bytes > 0


async def test_state_is_readable_json_for_people(shared: EmbeddedServer) -> None:
    state = json.loads(ServerFiles(shared.status().db_path.parent.parent).state.read_text())
    assert {"pid", "grpc_port", "ui_port", "db_path", "version", "started_at"} <= state.keys()
