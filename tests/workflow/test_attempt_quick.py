"""An attempt whose phases are all quick is executed by one local activity."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from activity_fakes import FakeActivities, Gate, issue, plan, raising, retrying
from temporalio import activity
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from workflow_server import stage

from agentcompass.contracts.activities import (
    BEGIN_ATTEMPT,
    CLOSE_ENVIRONMENT,
    EVALUATE,
    OPEN_ENVIRONMENT,
    PREPARE_TASK,
    QUICK_EXECUTION,
    RUN_HARNESS,
    TRIED_TOO_OFTEN,
    AttemptBegun,
    AttemptOutcome,
    PhaseOutcome,
    QuickExecution,
)
from agentcompass.contracts.issues import IssuePhase, Severity
from agentcompass.contracts.phases import Phase
from agentcompass.contracts.result import TaskStatus


def begun(
    *, execution: QuickExecution | None = None, outcome: AttemptOutcome | None = None, **changes: Any
) -> AttemptBegun:
    return AttemptBegun(plan=quick_plan(mode="none", **changes), execution=execution, outcome=outcome)


def saved_outcome() -> AttemptOutcome:
    return AttemptOutcome(
        task_id="task", attempt=1, status=TaskStatus.COMPLETED, success=True, task_finished=True
    )


ALL = [phase.value for phase in Phase]


def quick_plan(**changes: Any) -> Any:
    return plan(quick_phases=ALL, **changes)


async def test_everything_is_one_activity(client: Client) -> None:
    fakes = FakeActivities(plan=quick_plan(mode="none"))
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt()).result()
    assert fakes.names() == ["plan_attempt", "quick_execution", "save_attempt"]
    assert outcome.success


@pytest.mark.parametrize(
    "changes",
    [{"mode": "fresh"}, {"collects_artifacts": True}, {"keep_environment": True}],
    ids=["fresh", "artifacts", "kept"],
)
async def test_what_is_not_simple_runs_phase_by_phase(client: Client, changes: dict[str, Any]) -> None:
    fakes = FakeActivities(plan=quick_plan(**changes))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert "quick_execution" not in fakes.names()


async def test_issues_of_its_phases_are_saved(client: Client) -> None:
    found = issue(Severity.ERROR, IssuePhase.EVALUATE, "evaluation_failed")
    fakes = FakeActivities(plan=quick_plan(mode="none"))
    fakes.on(QUICK_EXECUTION, lambda _: QuickExecution(issues=[found], has_result=True))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert [saved.issues for saved in fakes.saved] == [[found]]


async def test_a_fatal_issue_is_executed_again_within_the_budget(client: Client) -> None:
    fakes = FakeActivities(plan=quick_plan(mode="reuse", retry=retrying(1)))
    answers = [QuickExecution(issues=[issue()]), QuickExecution(has_result=True)]
    fakes.on(QUICK_EXECUTION, lambda _: answers.pop(0))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert [input.execution for input in fakes.inputs(QUICK_EXECUTION)] == [1, 2]
    assert [(saved.retry_count, saved.issues) for saved in fakes.saved] == [(1, [])]


async def test_a_retry_of_the_evaluation_alone_does_not_execute_again(client: Client) -> None:
    broken = issue(phase=IssuePhase.EVALUATE, code="judge_failed")
    fakes = FakeActivities(plan=quick_plan(mode="none", retry=retrying(1)))
    fakes.on(QUICK_EXECUTION, lambda _: QuickExecution(issues=[broken], has_result=True))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert len(fakes.inputs(QUICK_EXECUTION)) == 1
    assert [input.ref.execution for input in fakes.inputs(EVALUATE)] == [2]


async def test_what_an_execution_that_failed_left_is_closed_by_its_id(client: Client) -> None:
    fakes = FakeActivities(plan=quick_plan(mode="none"))
    fakes.on(QUICK_EXECUTION, raising(issue(code="internal_error")))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert [input.handle.id.partition("-a1")[2] for input in fakes.inputs(CLOSE_ENVIRONMENT)] == ["-e1"]


async def test_a_cancelled_one_is_closed_and_ends_as_cancelled(client: Client) -> None:
    fakes = FakeActivities(plan=quick_plan(mode="none"))
    gate = Gate()
    fakes.on(QUICK_EXECUTION, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt(impatient=True)
        await gate.reached.wait()
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    assert len(fakes.inputs(CLOSE_ENVIRONMENT)) == 1


async def test_in_one_step_nothing_is_left_to_do_when_it_was_saved(client: Client) -> None:
    fakes = FakeActivities()
    fakes.on(BEGIN_ATTEMPT, lambda _: begun(outcome=saved_outcome()))
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt(in_one_step=True)).result()
    assert fakes.names() == ["begin_attempt"]
    assert outcome.success


async def test_in_one_step_a_retry_follows_by_the_usual_steps(client: Client) -> None:
    fakes = FakeActivities()
    fakes.on(BEGIN_ATTEMPT, lambda _: begun(retry=retrying(1), execution=QuickExecution(issues=[issue()])))
    fakes.on(QUICK_EXECUTION, lambda _: QuickExecution(has_result=True))
    async with stage(client, fakes) as scene:
        await (await scene.attempt(in_one_step=True)).result()
    assert fakes.names() == ["begin_attempt", "save_retry", "quick_execution", "save_attempt"]
    assert [(saved.retry_count, saved.issues) for saved in fakes.saved] == [(1, [])]


async def test_in_one_step_an_execution_that_failed_is_executed_again(client: Client) -> None:
    fakes = FakeActivities()
    fakes.on(BEGIN_ATTEMPT, lambda _: begun())
    async with stage(client, fakes) as scene:
        await (await scene.attempt(in_one_step=True)).result()
    assert fakes.names() == ["begin_attempt", "quick_execution", "save_attempt"]


async def test_in_one_step_a_cancelled_one_is_closed_by_its_id(client: Client) -> None:
    fakes = FakeActivities()
    gate = Gate()
    fakes.on(BEGIN_ATTEMPT, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt(impatient=True, in_one_step=True)
        await gate.reached.wait()
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    [closed] = fakes.inputs(CLOSE_ENVIRONMENT)
    assert (closed.handle.provider, closed.handle.id.partition("-a1")[2]) == ("", "-e1")
    assert fakes.saved == []


async def test_in_one_step_a_cancellation_after_the_saving_throws_nothing_away(client: Client) -> None:
    fakes = FakeActivities()
    reached = asyncio.Event()

    async def saves_all_the_same(_: object) -> AttemptBegun:
        reached.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return begun(outcome=saved_outcome())

    fakes.on(BEGIN_ATTEMPT, saves_all_the_same)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt(impatient=True, in_one_step=True)
        await reached.wait()
        await handle.cancel()
        assert (await handle.result()).success
    assert fakes.names() == ["begin_attempt"]


async def test_a_quick_step_that_took_its_worker_along_becomes_an_activity_of_its_own(
    client: Client,
) -> None:
    """Workflow tasks are tried without end, activities are not."""
    fakes, local = FakeActivities(plan=quick_plan(mode="fresh")), list[bool]()

    def behave(outcome: Any) -> Any:
        def begun_before(_: object) -> Any:
            local.append(activity.info().is_local)
            if activity.info().is_local:
                raise ApplicationError("begun twice", type=TRIED_TOO_OFTEN, non_retryable=True)
            return outcome

        return begun_before

    fakes.on(EVALUATE, behave(PhaseOutcome()))
    fakes.on(CLOSE_ENVIRONMENT, behave(PhaseOutcome()))
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt()).result()
    # The agent's environment is closed, its work judged, and the verifier's environment closed.
    assert local == [True, False] * 3
    assert outcome.success


def took_its_worker_along(_: object) -> None:
    raise ApplicationError("begun twice", type=TRIED_TOO_OFTEN, non_retryable=True)


@pytest.mark.parametrize("mode", ["reuse", "none"])
async def test_a_quick_execution_that_took_its_worker_along_goes_on_phase_by_phase(
    client: Client, mode: str
) -> None:
    """Only so it shows which of its phases does that; the environment is the one that an agent has worked in."""
    fakes, local = FakeActivities(plan=quick_plan(mode=mode)), list[tuple[str, bool]]()
    fakes.on(QUICK_EXECUTION, took_its_worker_along)
    phases = (OPEN_ENVIRONMENT, PREPARE_TASK, RUN_HARNESS, EVALUATE, CLOSE_ENVIRONMENT)
    for stub in phases:
        fakes.on(stub, lambda _: local.append((activity.info().activity_type, activity.info().is_local)))
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt()).result()
    names = [stub.name for stub in phases]
    if mode == "none":
        names[3:] = [CLOSE_ENVIRONMENT.name, EVALUATE.name]
    assert local == [(name, False) for name in names]
    assert all(input.quick for input in fakes.inputs(EVALUATE))
    assert outcome.success
