"""A request of 20,000 tasks: what its workflow keeps, tells and hands on does not grow with them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from activity_fakes import LOCAL_PHASES, RUN_DIR, FakeActivities, plan
from shared_slots import continued
from temporalio.client import Client, WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from workflow_server import real_server, stage, until

from agentcompass.contracts.activities import REQUEUE_FAILED, PendingTask, RequeuedTasks, RequeueFailedInput
from agentcompass.contracts.workflows import STOP_SIGNAL, RequestCounters, RequestState

TASKS = 20_000
NAMES = [f"a-rather-long-name-of-a-repository/and-of-a-problem-in-it-{number:05d}" for number in range(TASKS)]
RUNS = 3
PAYLOAD_BYTES = 128 * 1024
"""Of any event. A server warns at 512 KiB and refuses 2 MiB."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    """Instead of the server of the other tests of this folder: the time-skipping one loses signals."""
    async with real_server() as environment:
        yield environment


def state(**changes: Any) -> RequestState:
    values: dict[str, Any] = {"run_dir": RUN_DIR, "run_id": "run-1", "total_tasks": TASKS}
    return RequestState(**{**values, **changes})


def failed_page(input: RequeueFailedInput) -> RequeuedTasks:
    """Every task has failed."""
    end = min(input.offset + input.limit, TASKS)
    tasks = [
        PendingTask(index=place, task_id=NAMES[place], generation=input.generation)
        for place in range(input.offset, end)
    ]
    return RequeuedTasks(tasks=tasks, next_offset=end if end < TASKS else None)


LATE = state(next_offset=18_000, counters=RequestCounters(finished_tasks=18_000, completed_tasks=18_000))
ALL_FAILED = state(
    next_offset=None, requeues=1, counters=RequestCounters(finished_tasks=TASKS, failed_tasks=TASKS)
)


@pytest.mark.parametrize("before", [LATE, ALL_FAILED], ids=["near its end", "all of them once more"])
async def test_histories_and_payloads_stay_small(client: Client, before: RequestState) -> None:
    fakes = FakeActivities(NAMES, plan=plan(quick_phases=LOCAL_PHASES))
    fakes.on(REQUEUE_FAILED, failed_page)
    async with stage(client, fakes) as scene:
        handle = await scene.request(state=before, continue_as_new_after=30, task_concurrency=16)
        await until(lambda: continued(client, handle, RUNS), 60)
        status = await handle.query("status")
        await handle.signal(STOP_SIGNAL, args=["cancelled", "enough"])
        await handle.result()
        for sizes in await sizes_of_runs(client, handle):
            assert max(sizes) < PAYLOAD_BYTES
            assert len(sizes) < 2_000
    assert status["total_tasks"] == TASKS
    assert len(str(status)) < 4_000


async def sizes_of_runs(client: Client, handle: WorkflowHandle[Any, Any]) -> list[list[int]]:
    """The bytes of each event, for each run."""
    found, run_id = [], handle.first_execution_run_id
    while run_id:
        history = await client.get_workflow_handle(handle.id, run_id=run_id).fetch_history()
        found.append([event.ByteSize() for event in history.events])
        last = history.events[-1]
        run_id = last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
    return found
