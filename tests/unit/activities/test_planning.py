"""Planning that blocks: it costs its own attempt, and nothing else of the worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from planning import AnyNetwork, NoParams, PlannedBenchmark, PlannedHarness, recipe, request_of, task_of
from reuse_runs import Runs
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from agentcompass.activities import hook_calls, own_thread
from agentcompass.activities.hook_calls import abandoned_hooks, call_hook
from agentcompass.activities.own_thread import LeftBehindError, in_own_thread
from agentcompass.activities.plan_attempt import PlanAttempt
from agentcompass.activities.planner import plan_attempt
from agentcompass.activities.planning import planned
from agentcompass.activities.services import RequestComponents, Services, WorkerSettings
from agentcompass.contracts.activities import AttemptRef
from agentcompass.contracts.component import blocking
from agentcompass.contracts.errors import StageFailure
from agentcompass.contracts.issues import IssuePhase, Severity
from agentcompass.contracts.plan import BenchmarkPlan


@pytest.fixture
def let_go(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """What hooks block on; their time is short."""
    monkeypatch.setattr(own_thread, "SYNC_HOOK_SECONDS", 0.05)
    event = threading.Event()
    yield event
    event.set()
    for thread in threading.enumerate():
        if thread.name.startswith("hook "):
            thread.join(60)


def components_with(*recipes: Any) -> RequestComponents:
    benchmark, harness = PlannedBenchmark(NoParams()), PlannedHarness(NoParams())
    return RequestComponents(request_of(), benchmark, AnyNetwork(NoParams()), harness, list(recipes))


async def test_a_plan_that_blocks_is_a_failed_setup_that_names_the_benchmark(let_go: threading.Event) -> None:
    components = components_with()

    def hang() -> BenchmarkPlan:
        let_go.wait()
        return BenchmarkPlan()

    components.benchmark.plan = hang  # type: ignore[attr-defined]
    with pytest.raises(StageFailure) as failed:
        await planned(components, partial(plan_attempt, components, task_of(), 1))
    issue = failed.value.issue
    assert (issue.severity, issue.phase, issue.code) == (Severity.FATAL, IssuePhase.SETUP, "setup_failed")
    assert issue.message == "benchmark 'planned' could not plan: planning did not end within 0.05 s"


async def test_an_endless_loop_leaves_the_event_loop_to_other_attempts(let_go: threading.Event) -> None:
    components, others = components_with(), components_with()

    def spin() -> BenchmarkPlan:
        while not let_go.is_set():
            pass
        return BenchmarkPlan()

    components.benchmark.plan = spin  # type: ignore[attr-defined]
    stuck = asyncio.create_task(planned(components, partial(plan_attempt, components, task_of(), 1)))
    await asyncio.sleep(0)
    assert (await planned(others, lambda: "planned")) == "planned"
    with pytest.raises(StageFailure):
        await stuck


async def test_a_recipe_that_blocks_is_the_one_that_is_named(let_go: threading.Event) -> None:
    found = recipe(lambda plan, request, task: plan)
    found.matches = lambda *_: let_go.wait()  # type: ignore[method-assign]
    components = components_with(found)
    with pytest.raises(StageFailure, match=f"recipe '{found.id}' could not plan: planning did not end"):
        await planned(components, partial(plan_attempt, components, task_of(), 1))


async def test_what_planning_raises_is_raised_where_it_was_called() -> None:
    def refuse() -> None:
        raise StageFailure.fatal(IssuePhase.SETUP, "setup_failed", "no")

    with pytest.raises(StageFailure, match="no"):
        await planned(components_with(), refuse)
    with pytest.raises(SystemExit):
        await in_own_thread(lambda: exit(3), "combine_steps")


async def test_without_room_a_request_whose_plans_hang_fails_and_another_one_is_tried_elsewhere(
    let_go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hook_calls, "MOST_ABANDONED", abandoned_hooks() + 1)
    hanging = components_with()
    with pytest.raises(StageFailure, match="could not plan: planning did not end within"):
        await planned(hanging, let_go.wait)
    with pytest.raises(StageFailure, match="it is not planned: 1 others of this run did not end"):
        await planned(hanging, lambda: "planned")
    with pytest.raises(ApplicationError, match="do not end") as refused:
        await planned(components_with(), lambda: "planned")
    assert not refused.value.non_retryable


async def test_a_cancelled_one_is_left_behind_at_once(let_go: threading.Event) -> None:
    before, began = abandoned_hooks(), threading.Event()

    def hang() -> None:
        began.set()
        let_go.wait()

    task = asyncio.create_task(in_own_thread(hang, "combine_steps", seconds=3600))
    assert await asyncio.to_thread(began.wait, 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert abandoned_hooks() == before + 1


async def test_the_hook_that_did_not_end_is_named(let_go: threading.Event) -> None:
    with pytest.raises(LeftBehindError, match=r"^combine_steps did not end within 0\.05 s$"):
        await in_own_thread(let_go.wait, "combine_steps")


async def test_hooks_in_threads_have_the_same_room(
    let_go: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    @blocking
    async def evaluate() -> None:
        pytest.fail("there was no room for it")

    monkeypatch.setattr(hook_calls, "MOST_ABANDONED", abandoned_hooks() + 1)
    with pytest.raises(LeftBehindError):
        await in_own_thread(let_go.wait, "combine_steps")
    with pytest.raises(ApplicationError, match="do not end"):
        await call_hook(evaluate)


async def test_an_attempt_whose_planning_blocks_fails_in_its_setup(
    let_go: threading.Event, tmp_path: Path
) -> None:
    run = await Runs(tmp_path).start("run")
    services = Services(cast(Client, None), WorkerSettings("queue", "host"))
    benchmark = services.components(str(run.run_dir)).benchmark
    benchmark.build_plan = lambda task, request: let_go.wait()  # type: ignore[method-assign]
    entry = run.task_entries()[0]
    ref = AttemptRef(run_dir=str(run.run_dir), task_index=entry.index, task_id=entry.task_id, attempt=1)
    with pytest.raises(
        ApplicationError, match="benchmark 'qa' could not plan: planning did not end"
    ) as failed:
        await ActivityEnvironment().run(PlanAttempt(services).plan_attempt, ref)
    assert failed.value.non_retryable
    assert failed.value.type == "setup_failed"
