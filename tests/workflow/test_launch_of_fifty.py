"""A launch of fifty requests that continues as new again and again ends as one that never does."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest_asyncio
from activity_fakes import LOCAL_PHASES, Gate, issue, plan, raising
from shared_slots import Requests, fill_history, named, runs_of, state_is
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment
from workflow_server import real_server, stage, until

from agentcompass.contracts.activities import (
    EVALUATE,
    PENDING_TASKS,
    PREPARE_REQUEST,
    REQUEUE_FAILED,
    RUN_HARNESS,
    PendingTask,
    PendingTasks,
    RequeuedTasks,
)
from agentcompass.contracts.phases import Phase
from agentcompass.contracts.workflows import (
    CANCEL_REQUEST_SIGNAL,
    LIMITS_SIGNAL,
    PAUSE_SIGNAL,
    RESUME_SIGNAL,
    RETRY_FAILED_SIGNAL,
    LimitsChange,
)

NAMES = [f"r{number:02d}" for number in range(50)]
EVENTS = 100
HELD = ("r03-a", "r03-b", "r05-b", "r20-a")
"""Attempts that run while everything happens to the launch."""
TWO_TASKS = ("r03", "r05", "r20")
"""Of these requests; the others have one."""
QUICK = [phase for phase in LOCAL_PHASES if phase != Phase.RUN_HARNESS]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    """Instead of the server of the other tests of this folder: the time-skipping one loses signals."""
    async with real_server() as environment:
        yield environment


class Fifty(Requests):
    """One request fails once, one hangs in its preparation, some attempts stand still."""

    def __init__(self) -> None:
        super().__init__([])
        self._plan = plan(quick_phases=QUICK)
        self.held = {name: Gate() for name in HELD}
        self.preparing = Gate()
        self.on(PREPARE_REQUEST, self._prepare_slowly)
        self.on(PENDING_TASKS, lambda input: PendingTasks(tasks=self._tasks_of(input.run_dir)))
        self.on(REQUEUE_FAILED, lambda input: RequeuedTasks(tasks=self._failed(input)))
        self.on(RUN_HARNESS, self._run_task)
        self.on(EVALUATE, self._evaluate)

    async def _prepare_slowly(self, input: Any) -> Any:
        if input.request_key == "r30":
            await self.preparing()
        return self._prepare(input).model_copy(
            update={"total_tasks": len(self._tasks_of(f"/runs/{input.request_key}"))}
        )

    def _tasks_of(self, run_dir: str) -> list[PendingTask]:
        request = run_dir.rpartition("/")[2]
        names = "ab" if request in TWO_TASKS else "a"
        return [PendingTask(index=place, task_id=f"{request}-{name}") for place, name in enumerate(names)]

    def _failed(self, input: Any) -> list[PendingTask]:
        failed = [task for task in self._tasks_of(input.run_dir) if self._is_failed(task.task_id)]
        for task in failed:
            del self.finished[task.task_id]
        return [task.model_copy(update={"generation": input.generation}) for task in failed]

    def _is_failed(self, task_id: str) -> bool:
        return any(attempt.fatal for attempt in self.finished.get(task_id, []))

    async def _run_task(self, input: Any) -> None:
        self.order.append(input.ref.task_id)
        if input.ref.task_id in self.held:
            await self.held[input.ref.task_id]()

    def _evaluate(self, input: Any) -> Any:
        if input.ref.task_id == "r05-a" and not input.ref.generation:
            return raising(issue())(input)
        return None

    def times(self, task_id: str) -> int:
        return self.order.count(task_id)


@dataclass(frozen=True)
class Ending:
    """What came of a launch."""

    status: str
    requests: list[tuple[str, str, str]]
    executed: Counter[str]
    runs: int
    largest_event: int
    longest_run: int


async def carry_out(client: Client, *, continue_as_new_after: int) -> Ending:
    """Everything an operator does to a launch, each time in a run of it that has just begun."""
    continues = continue_as_new_after == EVENTS
    fakes = Fifty()
    async with stage(client, fakes) as scene:
        handle = await scene.launch(
            *named(*NAMES), task_concurrency=6, continue_as_new_after=continue_as_new_after
        )

        async def next_run() -> None:
            if continues:
                await fill_history(client, handle)

        async def stands_still() -> bool:
            return (
                fakes.preparing.standing == 1
                and all(gate.standing for gate in fakes.held.values())
                and "r29-a" in fakes.finished
                and "r20-b" in fakes.finished
            )

        await until(stands_still, 100)
        await next_run()
        await client.get_workflow_handle(f"{handle.id}/r05").signal(RETRY_FAILED_SIGNAL)
        await until(lambda: executed(fakes, "r05-a", 2))
        await handle.signal(PAUSE_SIGNAL, "lunch")
        await next_run()
        await until(lambda: state_is(handle, "paused"))
        await handle.signal(LIMITS_SIGNAL, LimitsChange(task_concurrency=8))
        await handle.signal(CANCEL_REQUEST_SIGNAL, args=["r20", "too expensive"])
        await handle.signal(CANCEL_REQUEST_SIGNAL, args=["r45", "not needed"])
        await next_run()
        await handle.signal(RESUME_SIGNAL)
        fakes.preparing.opened.set()
        for name, gate in fakes.held.items():
            if not name.startswith("r20"):  # which is cancelled
                gate.opened.set()
        result = await handle.result()
        lengths, sizes = await measured(client, handle)
        return Ending(
            status=result.status,
            requests=[(item.key, item.status, item.error) for item in result.requests],
            executed=Counter(fakes.order),
            runs=await runs_of(client, handle),
            largest_event=max(sizes),
            longest_run=max(lengths),
        )


async def executed(fakes: Fifty, task_id: str, times: int) -> bool:
    return fakes.times(task_id) == times


async def measured(client: Client, handle: Any) -> tuple[list[int], list[int]]:
    """Events of each run of a launch, and the bytes of each event."""
    lengths, sizes = [], []
    async for item in client.list_workflows(f'WorkflowId = "{handle.id}"'):
        history = await client.get_workflow_handle(item.id, run_id=item.run_id).fetch_history()
        lengths.append(len(history.events))
        sizes += [event.ByteSize() for event in history.events]
    return lengths, sizes


async def test_it_ends_as_one_that_does_not_and_its_history_stays_small(client: Client) -> None:
    whole = await carry_out(client, continue_as_new_after=1_000_000)
    parts = await carry_out(client, continue_as_new_after=EVENTS)
    assert (whole.runs, parts.runs >= 5) == (0, True)
    assert (parts.status, parts.requests) == (whole.status, whole.requests)
    assert parts.executed == whole.executed
    states = dict((key, status) for key, status, _ in parts.requests)
    assert [key for key, status in states.items() if status != "completed"] == ["r20", "r45"]
    assert parts.executed["r05-a"] == 2
    assert parts.longest_run < EVENTS + 400  # what was under way is waited for
    assert parts.largest_event < 256 * 1024
