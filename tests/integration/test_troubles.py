"""What keeps a launch from getting on is told: no worker, failing workflow code, failing activities."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from agentcompass.cli import launcher
from agentcompass.cli.launch_status import read_status
from agentcompass.cli.launcher import LaunchHandle
from agentcompass.cli.troubles import find_troubles
from agentcompass.contracts.launch import LaunchStatus
from agentcompass.contracts.workflows import LAUNCH_WORKFLOW, STATUS_QUERY, launch_workflow_id

QUEUE = "queue-of-the-test"


@workflow.defn(name=LAUNCH_WORKFLOW)
class Broken:
    """Its code has a bug, which fails the workflow task again and again."""

    @workflow.run
    async def run(self) -> None:
        raise RuntimeError("a bug in line one\nand more")


@activity.defn(name="save_something")
async def save_something() -> None:
    raise OSError(28, "No space left on device")


@workflow.defn(name=LAUNCH_WORKFLOW)
class WithoutSpace:
    """Its activity fails and is tried again."""

    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity("save_something", start_to_close_timeout=timedelta(minutes=1))

    @workflow.query(name=STATUS_QUERY)
    def status(self) -> LaunchStatus:
        return LaunchStatus(launch_id="it", state="running")


@workflow.defn(name=LAUNCH_WORKFLOW)
class OnSilentHost:
    """A phase of it waits for a host that nobody serves."""

    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity(
            "run_harness",
            task_queue="host/silent",
            start_to_close_timeout=timedelta(minutes=1),
            schedule_to_start_timeout=timedelta(seconds=8),
        )


@contextlib.asynccontextmanager
async def launched(workflows: list[type[Any]]) -> AsyncIterator[LaunchHandle]:
    """A launch on a queue of a cluster, which a worker with ``workflows`` serves, if there are any."""
    connection = await launcher.open_connection()
    launch_id = f"troubled-{uuid.uuid4().hex[:8]}"
    queue = f"{QUEUE}-{launch_id}"
    handle = LaunchHandle(launch_id, connection, None, queue, 1)
    client = connection.client
    await client.start_workflow(LAUNCH_WORKFLOW, id=launch_workflow_id(launch_id), task_queue=queue)
    try:
        async with contextlib.AsyncExitStack() as stack:
            if workflows:
                worker = Worker(
                    client,
                    task_queue=queue,
                    workflows=workflows,
                    activities=[save_something],
                    workflow_runner=UnsandboxedWorkflowRunner(),
                )
                await stack.enter_async_context(worker)
            yield handle
    finally:
        await handle.workflow.terminate()


async def until(found: Callable[[list[str]], bool], handle: LaunchHandle) -> list[str]:
    """The troubles of a launch as soon as they are those that are waited for."""
    status = LaunchStatus(launch_id=handle.launch_id, state="running")
    async with asyncio.timeout(60):
        while True:
            lines = await find_troubles(handle, status)
            if found(lines):
                return lines
            await asyncio.sleep(0.1)  # a failed try is the server's own business: no event tells of it


@pytest.mark.usefixtures("embedded_home")
async def test_queue_that_no_worker_polls_is_named() -> None:
    async with launched([]) as handle:
        status = await read_status(handle)
    assert status.state == "running"
    assert f"no worker polls the task queue '{handle.task_queue}'" in status.message
    assert f"agentcompass worker --task-queue {handle.task_queue}" in status.message


@pytest.mark.usefixtures("embedded_home")
async def test_failing_workflow_code_is_told_with_the_first_line_of_its_error() -> None:
    async with launched([Broken]) as handle:
        [line] = await until(bool, handle)
    assert "LaunchWorkflow" in line and "a bug in line one" in line and "and more" not in line
    assert "log of the workers" in line


@pytest.mark.usefixtures("embedded_home")
async def test_activity_that_is_tried_again_is_told_with_its_error() -> None:
    async with launched([WithoutSpace]) as handle:
        [line] = await until(bool, handle)
    assert line == "activity save_something is tried again: [Errno 28] No space left on device"


@pytest.mark.usefixtures("embedded_home")
async def test_host_that_is_waited_for_is_named_with_what_comes_of_it() -> None:
    async with launched([OnSilentHost]) as handle:
        [line] = await until(bool, handle)
    assert line == "run_harness waits for a worker of host/silent, which is given up after 8 s if it is gone"


@pytest.mark.usefixtures("embedded_home")
async def test_launch_that_is_over_has_no_troubles() -> None:
    async with launched([Broken]) as handle:
        status = LaunchStatus(launch_id=handle.launch_id, state="failed")
        assert await find_troubles(handle, status) == []
