"""A task that is given step by step: what an attempt executes, and where it stops."""

from __future__ import annotations

from typing import Any

import pytest
from activity_fakes import (
    LOCAL_PHASES,
    FakeActivities,
    Gate,
    in_turn,
    issue,
    plan,
    raising,
    reporting,
    retrying,
)
from temporalio.client import Client
from workflow_server import stage

from agentcompass.contracts.activities import (
    CLOSE_ENVIRONMENT,
    END_PHASE,
    EVALUATE,
    HOLD_ENVIRONMENT,
    OPEN_ENVIRONMENT,
    PREPARE_TASK,
    RUN_HARNESS,
    AttemptPlan,
    PhaseInput,
    PhaseOutcome,
)
from agentcompass.contracts.issues import IssuePhase, Severity
from agentcompass.contracts.workflows import END_UPDATE, EndAttempt, EndedPhase

STEP = ["prepare_task", "run_harness", "evaluate"]


def stepped(count: int = 3, quick: bool = False, **changes: Any) -> AttemptPlan:
    """A plan of so many steps that are judged where the agent worked."""
    phases = LOCAL_PHASES if quick else []
    part = {"mode": "reuse", "quick_phases": phases} | changes.pop("part", {})
    steps = [plan(**part) for _ in range(count)]
    return plan(mode="reuse", quick_phases=phases, steps=steps, **changes)


def at(fakes: FakeActivities) -> list[tuple[str, int]]:
    """The phases of the environment and of the steps, each with its step."""
    return [
        (name, input.ref.step) for name, input in fakes.calls if hasattr(input, "ref") and "save" not in name
    ]


def last_at(number: int) -> Any:
    """An evaluation that says of step ``number`` that no other one follows."""

    def behave(input: PhaseInput) -> PhaseOutcome:
        return PhaseOutcome(ends_steps=input.ref.step == number)

    return behave


@pytest.mark.parametrize("quick", [False, True], ids=["activities", "local activities"])
async def test_steps_follow_each_other_in_one_environment(client: Client, quick: bool) -> None:
    fakes = FakeActivities(plan=stepped(quick=quick))
    fakes.on(EVALUATE, last_at(3))
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt()).result()
    assert fakes.names() == [
        "plan_attempt",
        "open_environment",
        *STEP * 3,
        "close_environment",
        "save_attempt",
    ]
    assert [step for name, step in at(fakes) if name in STEP] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert {
        input.ref.step for input in [*fakes.inputs(OPEN_ENVIRONMENT), *fakes.inputs(CLOSE_ENVIRONMENT)]
    } == {0}
    assert len({input.handle.id for input in fakes.inputs(PREPARE_TASK) if input.handle}) == 1
    assert outcome.status == "completed"
    assert fakes.saved[0].ref.step == 0


async def test_no_step_follows_the_one_that_is_said_to_be_the_last(client: Client) -> None:
    fakes = FakeActivities(plan=stepped())
    fakes.on(EVALUATE, last_at(2))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert [input.ref.step for input in fakes.inputs(RUN_HARNESS)] == [1, 2]


async def test_a_step_that_is_judged_apart_leaves_the_agent_s_environment_open(client: Client) -> None:
    fakes = FakeActivities(plan=stepped(2, part={"mode": "fresh"}))
    fakes.on(EVALUATE, last_at(2))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    judged = ["open_environment", "evaluate", "close_environment"]
    step = ["prepare_task", "run_harness", *judged]
    assert [name for name in fakes.names() if name != "hold_environment"] == [
        "plan_attempt",
        "open_environment",
        *step * 2,
        "close_environment",
        "save_attempt",
    ]
    opened = [input.for_evaluation for input in fakes.inputs(OPEN_ENVIRONMENT)]
    assert opened == [False, True, True]
    closed = [input.handle.id for input in fakes.inputs(CLOSE_ENVIRONMENT)]
    assert [name.split("-e1")[1] for name in closed] == ["-s1-v", "-s2-v", ""]


async def test_the_agent_s_environment_is_kept_alive_while_its_step_is_judged_elsewhere(
    client: Client,
) -> None:
    fakes, judging = FakeActivities(plan=stepped(2, part={"mode": "fresh"})), Gate()

    async def judge(input: PhaseInput) -> PhaseOutcome:
        await judging()
        return last_at(1)(input)

    fakes.on(EVALUATE, judge)
    async with stage(client, fakes) as scene:
        attempt = await scene.attempt()
        await judging.reached.wait()
        [held] = [input.handle for input in fakes.inputs(HOLD_ENVIRONMENT)]
        judging.opened.set()
        await attempt.result()
    assert held == fakes.inputs(RUN_HARNESS)[0].handle


async def test_an_agent_s_error_is_beside_the_score_and_the_next_step_follows(client: Client) -> None:
    fakes = FakeActivities(plan=stepped(2))
    timeout = issue(Severity.ERROR, code="harness_timeout")
    fakes.on(RUN_HARNESS, in_turn(reporting(timeout)))
    fakes.on(EVALUATE, last_at(2))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert [input.ref.step for input in fakes.inputs(EVALUATE)] == [1, 2]
    assert fakes.saved[0].issues == [timeout]


@pytest.mark.parametrize("stub", [PREPARE_TASK, RUN_HARNESS, EVALUATE], ids=lambda stub: stub.name)
async def test_a_step_that_fails_ends_the_execution_and_closes_the_environment(
    client: Client, stub: Any
) -> None:
    fakes = FakeActivities(plan=stepped())
    found = issue(Severity.ERROR if stub is EVALUATE else Severity.FATAL, IssuePhase.EVALUATE)
    fakes.on(stub, in_turn(None, raising(found)))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    names = fakes.names()
    assert names[-3:] == [stub.name, "close_environment", "save_attempt"]
    assert max(step for _, step in at(fakes)) == 2
    assert fakes.saved[0].issues == [found]


async def test_a_retry_begins_with_the_first_step_in_a_new_environment(client: Client) -> None:
    fakes = FakeActivities(plan=stepped(2, retry=retrying(1)))
    fakes.on(RUN_HARNESS, in_turn(None, raising(issue())))
    fakes.on(EVALUATE, last_at(2))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert [(input.ref.execution, input.ref.step) for input in fakes.inputs(RUN_HARNESS)] == [
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
    ]
    opened = [input.handle.id for input in fakes.inputs(PREPARE_TASK) if input.handle]
    assert len(set(opened)) == 2


async def test_an_operator_ends_the_step_that_runs(client: Client) -> None:
    gate = Gate()
    fakes = FakeActivities(plan=stepped(2))
    fakes.on(RUN_HARNESS, in_turn(None, gate))
    fakes.on(EVALUATE, last_at(2))
    async with stage(client, fakes) as scene:
        handle = await scene.attempt()
        await gate.reached.wait()
        await handle.execute_update(END_UPDATE, EndAttempt(reason="stalled"), result_type=EndedPhase)
        gate.opened.set()
        await handle.result()
    [written] = fakes.inputs(END_PHASE)
    assert (written.ref.step, written.end.phase) == (2, "run_harness")
