"""Retries of an attempt: those that the plan's budget pays for, and those of the infrastructure."""

from __future__ import annotations

from typing import Any

import pytest
from activity_fakes import FakeActivities, in_turn, issue, plan, raising, reporting, retrying
from temporalio.client import Client
from workflow_server import stage

from agentcompass.contracts.activities import (
    ALL_ACTIVITIES,
    CLOSE_ENVIRONMENT,
    EVALUATE,
    OPEN_ENVIRONMENT,
    PLAN_ATTEMPT,
    RUN_HARNESS,
    SAVE_ATTEMPT,
    SAVE_RETRY,
    ActivityStub,
)
from agentcompass.contracts.issues import IssuePhase, Severity
from agentcompass.contracts.plan import RetryPlan

CRASH = issue(code="harness_failed")
JUDGE = issue(phase=IssuePhase.EVALUATE, code="judge_failed")
TIMEOUT = issue(Severity.ERROR, code="harness_timeout")


def executions(fakes: FakeActivities, stub: ActivityStub[Any, Any]) -> list[int]:
    """The execution numbers for which an activity was called."""
    return [input.ref.execution for input in fakes.inputs(stub)]


@pytest.mark.parametrize("mode", ["reuse", "none", "fresh"])
async def test_a_fatal_run_is_executed_again_with_the_same_plan(client: Client, mode: str) -> None:
    fakes = FakeActivities(plan=plan(mode=mode, retry=retrying(3)))
    fakes.on(RUN_HARNESS, in_turn(raising(CRASH), raising(CRASH)))
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt()).result()
    assert len(fakes.inputs(PLAN_ATTEMPT)) == 1
    assert executions(fakes, RUN_HARNESS) == [1, 2, 3]
    assert executions(fakes, EVALUATE) == [3]
    opened, closed = executions(fakes, OPEN_ENVIRONMENT), executions(fakes, CLOSE_ENVIRONMENT)
    assert opened == closed == ([1, 2, 3, 3] if mode == "fresh" else [1, 2, 3])
    assert [(saved.retry, saved.scope, saved.stage) for saved in fakes.inputs(SAVE_RETRY)] == [
        (1, "attempt", "run"),
        (2, "attempt", "run"),
    ]
    # What a retry resolved is history: the attempt's result has no issue.
    [saved] = fakes.saved
    assert (saved.ref.execution, saved.retry_count, saved.issues) == (3, 2, [])
    assert outcome.success


async def test_the_last_execution_is_kept_when_the_budget_is_used_up(client: Client) -> None:
    fakes = FakeActivities(plan=plan(retry=retrying(2)))
    fakes.on(RUN_HARNESS, raising(CRASH))
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt()).result()
    assert executions(fakes, RUN_HARNESS) == [1, 2, 3]
    [saved] = fakes.saved
    assert (saved.ref.execution, saved.retry_count, saved.issues) == (3, 2, [CRASH])
    assert outcome.fatal


async def test_an_error_is_retried_when_a_pattern_matches_and_else_not(client: Client) -> None:
    for patterns, expected in ((["^harness_timeout$"], [1, 2]), (["rate"], [1]), (None, [1])):
        fakes = FakeActivities(plan=plan(retry=retrying(1, patterns)))
        fakes.on(RUN_HARNESS, in_turn(reporting(TIMEOUT)))
        async with stage(client, fakes) as scene:
            await (await scene.attempt()).result()
        assert executions(fakes, RUN_HARNESS) == expected
        matched = [saved.matched_pattern for saved in fakes.inputs(SAVE_RETRY)]
        assert matched == ["^harness_timeout$"] * (len(expected) - 1)


@pytest.mark.parametrize(
    ("mode", "evaluations", "opened", "scope"),
    [
        ("none", [1, 2, 3], [1], "evaluate"),
        ("fresh", [1, 2, 3], [1, 1, 2, 3], "evaluate"),
        ("reuse", [1, 2, 3], [1, 2, 3], "attempt"),
    ],
)
async def test_a_judge_that_fails_is_asked_again_about_the_same_result(
    client: Client, mode: str, evaluations: list[int], opened: list[int], scope: str
) -> None:
    fakes = FakeActivities(plan=plan(mode=mode, retry=retrying(2)))
    fakes.on(EVALUATE, in_turn(raising(JUDGE), raising(JUDGE)))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert executions(fakes, EVALUATE) == evaluations
    assert executions(fakes, OPEN_ENVIRONMENT) == opened
    assert executions(fakes, CLOSE_ENVIRONMENT) == opened
    assert executions(fakes, RUN_HARNESS) == ([1] if scope == "evaluate" else [1, 2, 3])
    # Each discarded execution hands the inference on to the next one.
    assert [(saved.ref.execution, saved.scope) for saved in fakes.inputs(SAVE_RETRY)] == [
        (1, scope),
        (2, scope),
    ]


async def test_the_budget_is_shared_by_all_phases(client: Client) -> None:
    fakes = FakeActivities(plan=plan(retry=retrying(2)))
    fakes.on(RUN_HARNESS, in_turn(raising(CRASH)))
    fakes.on(EVALUATE, raising(JUDGE))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert executions(fakes, RUN_HARNESS) == [1, 2]
    assert executions(fakes, EVALUATE) == [2, 3]
    assert [saved.retry_count for saved in fakes.saved] == [2]


async def test_a_resumed_evaluation_that_fails_is_repeated_without_the_agent(client: Client) -> None:
    fakes = FakeActivities(plan=plan(resume_evaluation=True, retry=retrying(1)))
    fakes.on(EVALUATE, in_turn(raising(JUDGE)))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert executions(fakes, EVALUATE) == [1, 2]
    assert fakes.inputs(RUN_HARNESS) == []
    assert fakes.inputs(OPEN_ENVIRONMENT) == []


async def test_the_waits_between_retries_double_up_to_the_maximum(client: Client) -> None:
    policy = RetryPlan(max_retries=4, min_delay_seconds=100, max_delay_seconds=300)
    fakes = FakeActivities(plan=plan(retry=policy))
    fakes.on(RUN_HARNESS, raising(CRASH))
    async with stage(client, fakes) as scene:
        handle = await scene.attempt()
        await handle.result()
        timers = [
            event.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta().total_seconds()
            async for event in handle.fetch_history_events()
            if event.HasField("timer_started_event_attributes")
        ]
    assert timers == pytest.approx([saved.delay_seconds for saved in fakes.inputs(SAVE_RETRY)], abs=0.01)
    bounds = [(50, 100), (100, 200), (150, 300), (150, 300)]
    assert all(low <= seconds < high for seconds, (low, high) in zip(timers, bounds, strict=True))


class Flaky:
    """Infrastructure that fails some times, in a way that Temporal tries again."""

    def __init__(self, failures: int) -> None:
        self.left = failures

    def __call__(self, _: object) -> None:
        if self.left:
            self.left -= 1
            raise OSError("the disk is full")


@pytest.mark.parametrize("quick", [[], ["run_harness"]], ids=["activity", "local activity"])
async def test_infrastructure_that_recovers_costs_no_retry(client: Client, quick: list[str]) -> None:
    fakes = FakeActivities(plan=plan(retry=retrying(1), quick_phases=quick))
    fakes.on(RUN_HARNESS, Flaky(2))
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt()).result()
    assert executions(fakes, RUN_HARNESS) == [1, 1, 1]
    assert [(saved.retry_count, saved.issues) for saved in fakes.saved] == [(0, [])]
    assert outcome.success


async def test_infrastructure_that_never_recovers_is_given_up_after_ten_tries(client: Client) -> None:
    fakes = FakeActivities()
    fakes.on(RUN_HARNESS, Flaky(1000))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert executions(fakes, RUN_HARNESS) == [1] * 10
    assert executions(fakes, CLOSE_ENVIRONMENT) == [1]
    assert [saved.issues for saved in fakes.saved] == [
        [issue(code="worker_lost", message="run_harness: the disk is full")]
    ]


async def test_a_full_disk_in_the_evaluation_is_no_fault_of_the_verifier(client: Client) -> None:
    fakes = FakeActivities()
    fakes.on(EVALUATE, Flaky(1000))
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt()).result()
    [saved] = fakes.saved
    assert [(found.severity, found.code) for found in saved.issues] == [("fatal", "worker_lost")]
    assert outcome.fatal


async def test_a_result_is_saved_when_the_disk_has_room_again(client: Client) -> None:
    fakes = FakeActivities()
    fakes.on(SAVE_ATTEMPT, Flaky(2))
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt()).result()
    assert executions(fakes, SAVE_ATTEMPT) == [1] * 3
    assert outcome.success


def test_every_activity_has_a_fake() -> None:
    registered = [fake.__temporal_activity_definition.name for fake in FakeActivities().registered()]
    assert registered == [stub.name for stub in ALL_ACTIVITIES]
