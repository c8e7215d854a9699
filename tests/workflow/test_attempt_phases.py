"""An attempt's phases: their order in each mode, and what becomes of a phase that fails."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from activity_fakes import LOCAL_PHASES, FakeActivities, in_turn, issue, plan, raising, reporting, retrying
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from workflow_server import stage

from agentcompass.contracts.activities import (
    CLOSE_ENVIRONMENT,
    COLLECT_ARTIFACTS,
    EVALUATE,
    OPEN_ENVIRONMENT,
    PLAN_ATTEMPT,
    PREPARE_TASK,
    RUN_HARNESS,
    ActivityStub,
    OpenedEnvironment,
    PhaseOutcome,
)
from agentcompass.contracts.environment import EnvironmentHandle
from agentcompass.contracts.issues import Issue, IssueCode, IssuePhase, Severity
from agentcompass.contracts.request import EvaluationMode


@dataclass(frozen=True)
class Order:
    """A plan, and the activities that it must lead to."""

    changes: dict[str, Any]
    phases: str


ORDERS = {
    "reuse": Order({"mode": "reuse"}, "open prepare run_harness evaluate close"),
    "none": Order({"mode": "none"}, "open prepare run_harness close evaluate"),
    "fresh": Order({"mode": "fresh"}, "open prepare run_harness close open evaluate close"),
    "collecting": Order(
        {"mode": "fresh", "collects_artifacts": True},
        "open prepare run_harness collect close open evaluate close",
    ),
    "harness-free": Order({"harness_free": True}, "open prepare run_task close evaluate"),
    "kept, reuse": Order({"mode": "reuse", "keep_environment": True}, "open prepare run_harness evaluate"),
    "kept, fresh": Order(
        {"mode": "fresh", "keep_environment": True}, "open prepare run_harness open evaluate"
    ),
    "resumed evaluation, none": Order({"resume_evaluation": True}, "evaluate"),
    "resumed evaluation, fresh": Order({"resume_evaluation": True, "mode": "fresh"}, "open evaluate close"),
}

SHORT = {
    "open": "open_environment",
    "prepare": "prepare_task",
    "collect": "collect_artifacts",
    "close": "close_environment",
}


def spelled(phases: str) -> list[str]:
    """The names of the activities of an attempt that does these phases."""
    return ["plan_attempt", *(SHORT.get(word, word) for word in phases.split()), "save_attempt"]


@pytest.mark.parametrize("quick", [False, True], ids=["activities", "local activities"])
@pytest.mark.parametrize("name", ORDERS)
async def test_phases_run_in_the_order_of_their_mode(client: Client, name: str, quick: bool) -> None:
    order = ORDERS[name]
    phases = LOCAL_PHASES if quick else []
    fakes = FakeActivities(plan=plan(**order.changes, quick_phases=phases))
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt()).result()
    assert fakes.names() == spelled(order.phases)
    assert (outcome.status, outcome.success, outcome.task_finished) == ("completed", True, True)


@dataclass(frozen=True)
class Failure:
    """A phase that fails with an issue, and what happens then."""

    stub: ActivityStub[Any, Any]
    found: Issue
    mode: str
    phases: str
    saved: list[Issue] = field(default_factory=list)


SETUP = issue(phase=IssuePhase.SETUP, code="setup_failed")
RUN = issue(phase=IssuePhase.RUN, code="harness_failed")
COLLECT = issue(phase=IssuePhase.COLLECT, code="artifact_collection_failed")
VERIFIER = issue(Severity.ERROR, IssuePhase.EVALUATE, "evaluation_failed")

FAILURES = {
    "plan": Failure(PLAN_ATTEMPT, SETUP, "none", ""),
    "open": Failure(OPEN_ENVIRONMENT, SETUP, "reuse", "open close"),
    "prepare": Failure(PREPARE_TASK, SETUP, "reuse", "open prepare close"),
    "run": Failure(RUN_HARNESS, RUN, "reuse", "open prepare run_harness close"),
    "run, judged apart": Failure(RUN_HARNESS, RUN, "fresh", "open prepare run_harness close"),
    "collect": Failure(COLLECT_ARTIFACTS, COLLECT, "none", "open prepare run_harness collect close"),
    "verifier, reuse": Failure(
        EVALUATE, VERIFIER, "reuse", "open prepare run_harness collect evaluate close"
    ),
    "verifier, none": Failure(EVALUATE, VERIFIER, "none", "open prepare run_harness collect close evaluate"),
    "verifier, fresh": Failure(
        EVALUATE, VERIFIER, "fresh", "open prepare run_harness collect close open evaluate close"
    ),
}


@pytest.mark.parametrize("quick", [False, True], ids=["activities", "local activities"])
@pytest.mark.parametrize("name", FAILURES)
async def test_a_phase_that_fails_ends_the_execution_and_its_issue_is_saved(
    client: Client, name: str, quick: bool
) -> None:
    case = FAILURES[name]
    phases = LOCAL_PHASES if quick else []
    collects = "collect" in case.phases
    fakes = FakeActivities(plan=plan(mode=case.mode, collects_artifacts=collects, quick_phases=phases))
    fakes.on(case.stub, raising(case.found))
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt()).result()
    assert fakes.names() == spelled(case.phases)
    assert [saved.issues for saved in fakes.saved] == [[case.found]]
    assert (outcome.fatal, outcome.error) == (
        case.found.severity is Severity.FATAL,
        case.found.severity is Severity.ERROR,
    )


async def test_what_a_failed_opening_left_is_closed_by_its_derived_id(client: Client) -> None:
    fakes = FakeActivities(plan=plan(mode="fresh", evaluation_environment="judge"))
    fakes.on(OPEN_ENVIRONMENT, in_turn(None, raising(SETUP)))
    async with stage(client, fakes) as scene:
        await (await scene.attempt("Task 1")).result()
    closed = [input.handle for input in fakes.inputs(CLOSE_ENVIRONMENT)]
    assert [(handle.provider, handle.id) for handle in closed] == [
        ("sandbox", "ac-task-1-b1328bf644c5-a1-e1"),
        ("judge", "ac-task-1-b1328bf644c5-a1-e1-v"),
    ]


async def test_an_error_in_the_run_is_evaluated_all_the_same(client: Client) -> None:
    timeout = issue(Severity.ERROR, code=IssueCode.HARNESS_TIMEOUT)
    fakes = FakeActivities()
    fakes.on(RUN_HARNESS, reporting(timeout))
    fakes.on(EVALUATE, reporting(timeout))  # the scored result holds all issues
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt()).result()
    assert EVALUATE.name in fakes.names()
    assert [saved.issues for saved in fakes.saved] == [[timeout]]
    assert outcome.error


async def test_a_fatal_issue_in_the_runs_outcome_leaves_nothing_to_evaluate(client: Client) -> None:
    fakes = FakeActivities(plan=plan(collects_artifacts=True))
    fakes.on(RUN_HARNESS, reporting(RUN))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert fakes.names() == spelled("open prepare run_harness collect close")


async def test_a_skipped_task_is_not_evaluated(client: Client) -> None:
    fakes = FakeActivities(plan=plan(mode=EvaluationMode.REUSE))
    fakes.on(RUN_HARNESS, lambda _: PhaseOutcome(status="skipped"))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert fakes.names() == spelled("open prepare run_harness close")


async def test_a_failed_cleanup_is_a_warning_beside_the_score(client: Client) -> None:
    fakes = FakeActivities(plan=plan(retry=retrying(2)))
    fakes.on(CLOSE_ENVIRONMENT, raising(issue(Severity.FATAL, IssuePhase.CLEANUP, "cleanup_failed")))
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt()).result()
    assert fakes.names() == spelled("open prepare run_harness close evaluate")
    assert [saved.issues for saved in fakes.saved] == [
        [issue(Severity.WARNING, IssuePhase.CLEANUP, "cleanup_failed")]
    ]
    assert (outcome.warning, outcome.fatal) == (True, False)


async def test_a_plan_that_is_refused_is_a_failed_setup(client: Client) -> None:
    def refuse(_: object) -> None:
        raise ApplicationError("recipe 'x' raised", 2, type="UsageError", non_retryable=True)

    fakes = FakeActivities()
    fakes.on(PLAN_ATTEMPT, refuse)
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert [saved.issues for saved in fakes.saved] == [
        [issue(Severity.FATAL, IssuePhase.SETUP, "setup_failed", "plan: recipe 'x' raised")]
    ]


async def test_a_host_bound_environment_is_used_on_the_queue_of_its_host(client: Client) -> None:
    """Its phases and its closing go there, even quick ones; what needs no environment does not."""
    fakes = FakeActivities(plan=plan(quick_phases=["run_harness", "close_environment", "evaluate"]))
    async with stage(client, fakes) as scene, stage(client, fakes) as host:
        fakes.on(
            OPEN_ENVIRONMENT,
            lambda _: OpenedEnvironment(
                handle=EnvironmentHandle(provider="sandbox", id="sandbox-1"), task_queue=host.queue
            ),
        )
        handle = await scene.attempt()
        await handle.result()
        history = await handle.fetch_history()
    queues = {
        event.activity_task_scheduled_event_attributes.activity_type.name: (
            event.activity_task_scheduled_event_attributes.task_queue.name
        )
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    }
    assert queues == {
        "open_environment": scene.queue,
        "prepare_task": host.queue,
        "run_harness": host.queue,
        "close_environment": host.queue,
    }
