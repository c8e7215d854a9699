"""A request's window: how many attempts at a time, in which order, and which of them at all."""

from __future__ import annotations

from typing import Any

import pytest
from activity_fakes import FakeActivities, Gate, for_task, in_turn, issue, plan, raising, retrying
from temporalio.client import Client
from workflow_server import run_request, stage

from agentcompass.contracts.activities import (
    ANALYZE_TASKS,
    PENDING_TASKS,
    PREPARE_REQUEST,
    RUN_HARNESS,
    SAVE_ATTEMPT,
    AnalyzedTasks,
    FinishedAttempt,
    PhaseInput,
    PreparedRequest,
)


class Meter:
    """Counts how many runs overlap, and notes them in order."""

    def __init__(self) -> None:
        self.order: list[tuple[str, int]] = []
        self.running = 0
        self.most = 0

    def __call__(self, input: PhaseInput) -> Any:
        self.order.append((input.ref.task_id, input.ref.attempt))
        return self._run()

    async def _run(self) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        gate = Gate()
        gate.opened.set()
        await gate()
        self.running -= 1


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_the_window_is_never_wider_than_the_task_concurrency(client: Client, concurrency: int) -> None:
    tasks = [f"t{number}" for number in range(12)]
    fakes, meter = FakeActivities(tasks), Meter()
    fakes.on(RUN_HARNESS, meter)
    async with stage(client, fakes) as scene:
        result = await (await scene.request(task_concurrency=concurrency)).result()
    assert result.status == "completed"
    assert meter.most <= concurrency
    assert sorted(meter.order) == sorted((task, 1) for task in tasks)
    if concurrency == 1:
        assert [task for task, _ in meter.order] == tasks


async def test_a_slow_attempt_keeps_its_slot_and_no_other(client: Client) -> None:
    fakes, slow = FakeActivities(["slow", "b", "c", "d"]), Gate()
    fakes.on(RUN_HARNESS, for_task("slow", slow))
    fakes.on(SAVE_ATTEMPT, lambda input: slow.opened.set() if input.ref.task_id == "d" else None)
    async with stage(client, fakes) as scene:
        await (await scene.request(task_concurrency=2)).result()
    assert [saved.ref.task_id for saved in fakes.saved] == ["b", "c", "d", "slow"]


@pytest.mark.parametrize(("k", "parallel", "most"), [(3, False, 1), (3, True, 3)], ids=["serial", "parallel"])
async def test_attempts_of_a_task_overlap_only_when_declared(
    client: Client, k: int, parallel: bool, most: int
) -> None:
    fakes, meter = FakeActivities(["only"]), Meter()
    fakes.parallel_attempts = parallel
    gate = Gate()

    def run(input: PhaseInput) -> Any:
        meter.order.append((input.ref.task_id, input.ref.attempt))
        if parallel and len(meter.order) == k:
            gate.opened.set()  # all of them are there at once
        return gate() if parallel else meter._run()

    fakes.on(RUN_HARNESS, run)
    async with stage(client, fakes) as scene:
        await (await scene.request(request=run_request(attempts={"k": k}))).result()
    assert sorted(meter.order) == [("only", 1), ("only", 2), ("only", 3)]
    assert parallel or (meter.most == most and meter.order == sorted(meter.order))


async def test_pass_stops_at_the_first_success(client: Client) -> None:
    fakes = FakeActivities(["easy", "hard", "never"])
    right = {("easy", 1), ("hard", 2)}
    fakes.succeeds = lambda task, attempt: (task, attempt) in right  # type: ignore[method-assign]
    request = run_request(attempts={"k": 3, "strategy": "pass"})
    async with stage(client, fakes) as scene:
        handle = await scene.request(request=request, task_concurrency=1)
        await handle.result()
        status = await handle.query("status")
    assert [(saved.ref.task_id, saved.ref.attempt) for saved in fakes.saved] == [
        ("easy", 1),
        ("hard", 1),
        ("hard", 2),
        ("never", 1),
        ("never", 2),
        ("never", 3),
    ]
    assert (status["finished_tasks"], status["state"]) == (3, "completed")


async def test_attempts_that_are_there_already_are_not_run_again(client: Client) -> None:
    fakes = FakeActivities(["half", "new"])
    fakes.finished["half"] = [FinishedAttempt(attempt=1, success=True)]
    async with stage(client, fakes) as scene:
        await (await scene.request(request=run_request(attempts={"k": 2}), task_concurrency=1)).result()
    assert [(saved.ref.task_id, saved.ref.attempt) for saved in fakes.saved] == [
        ("half", 2),
        ("new", 1),
        ("new", 2),
    ]


async def test_the_task_list_is_read_in_pages_of_about_500_attempts(client: Client) -> None:
    fakes = FakeActivities(["a", "b", "c", "d", "e"])
    async with stage(client, fakes) as scene:
        await (await scene.request(request=run_request(attempts={"k": 250, "strategy": "pass"}))).result()
    assert [(page.offset, page.limit) for page in fakes.inputs(PENDING_TASKS)] == [(0, 2), (2, 2), (4, 2)]
    assert sorted(saved.ref.task_id for saved in fakes.saved) == ["a", "b", "c", "d", "e"]


async def test_a_back_off_holds_no_slot(client: Client) -> None:
    fakes = FakeActivities(["first", "second"], plan=plan(retry=retrying(1, delay=600)))
    fakes.on(RUN_HARNESS, for_task("first", in_turn(raising(issue()))))
    async with stage(client, fakes) as scene:
        await (await scene.request(task_concurrency=1)).result()
    runs = [(input.ref.task_id, input.ref.execution) for input in fakes.inputs(RUN_HARNESS)]
    assert runs == [("first", 1), ("second", 1), ("first", 2)]


async def test_finished_tasks_are_analyzed_before_the_end_and_a_failure_changes_nothing(
    client: Client,
) -> None:
    tasks = [f"t{number}" for number in range(30)]
    fakes = FakeActivities(tasks)
    fakes.on(
        PREPARE_REQUEST,
        lambda _: PreparedRequest(run_dir="/runs/one", run_id="run-1", total_tasks=30, analyzes=True),
    )
    fakes.on(ANALYZE_TASKS, in_turn(raising(issue()), lambda _: AnalyzedTasks(attempts=5)))
    async with stage(client, fakes) as scene:
        result = await (await scene.request()).result()
    analyzed = [index for input in fakes.inputs(ANALYZE_TASKS) for index in input.task_indexes]
    assert sorted(analyzed) == list(range(30))
    assert fakes.names()[-2:] == ["analyze_tasks", "finalize_request"]
    assert result.status == "completed"
