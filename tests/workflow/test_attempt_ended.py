"""An operator ends the phase that runs: what the attempt workflow does, and what it refuses."""

from __future__ import annotations

import pytest
from activity_fakes import FakeActivities, Gate, in_turn, issue, plan, raising, reporting, retrying
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from workflow_server import stage, until

from agentcompass.activities.boundary import failed
from agentcompass.contracts.activities import (
    ANY_PHASE,
    BEGIN_ATTEMPT,
    COLLECT_ARTIFACTS,
    END_PHASE,
    EVALUATE,
    PLAN_ATTEMPT,
    QUICK_EXECUTION,
    RUN_HARNESS,
    RUN_TASK,
    ActivityStub,
    AttemptRef,
    PhaseInput,
    PhaseOutcome,
)
from agentcompass.contracts.issues import Severity
from agentcompass.contracts.phases import Phase
from agentcompass.contracts.workflows import END_UPDATE, EndAttempt, EndedPhase

ENDED = issue(Severity.ERROR, code="ended_by_operator", message="run_harness was ended by an operator")
CRASH = issue(code="harness_failed")


@pytest.mark.parametrize(
    ("phase", "stub"), [("run_harness", RUN_HARNESS), ("run_task", RUN_TASK), ("evaluate", EVALUATE)]
)
async def test_the_decision_is_written_down_for_the_phase_that_runs(
    client: Client, phase: str, stub: ActivityStub[PhaseInput, PhaseOutcome]
) -> None:
    gate = Gate()
    fakes = FakeActivities(plan=plan(harness_free=phase == "run_task"))
    fakes.on(stub, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt()
        await gate.reached.wait()
        told = await handle.execute_update(END_UPDATE, EndAttempt(reason="stalled"), result_type=EndedPhase)
        gate.opened.set()
        await handle.result()
    assert (told.phase, told.execution) == (phase, 1)
    [written] = fakes.inputs(END_PHASE)
    assert (written.ref.execution, written.end.phase, written.end.reason) == (1, phase, "stalled")


@pytest.mark.parametrize(
    ("stub", "reason"),
    [
        (COLLECT_ARTIFACTS, "it is in collect_artifacts, which ends by itself"),
        (PLAN_ATTEMPT, "it is in plan, which ends by itself"),
    ],
)
async def test_what_ends_by_itself_is_refused(
    client: Client, stub: ActivityStub[AttemptRef, PhaseOutcome], reason: str
) -> None:
    gate = Gate()
    fakes = FakeActivities(plan=plan(collects_artifacts=True))
    fakes.on(stub, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt(impatient=True)
        await gate.reached.wait()
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update(END_UPDATE, EndAttempt())
        gate.opened.set()
        await handle.result()
    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.message == reason
    assert fakes.inputs(END_PHASE) == []


async def test_an_attempt_that_waits_has_nothing_to_end(client: Client) -> None:
    gate = Gate()
    fakes = FakeActivities(plan=plan(retry=retrying(1, delay=3600)))
    fakes.on(RUN_HARNESS, in_turn(raising(CRASH), gate))
    async with stage(client, fakes) as scene:
        handle = await scene.attempt()

        async def waits() -> bool:
            return "save_retry" in fakes.names()

        await until(waits)
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update(END_UPDATE, EndAttempt())
        assert isinstance(refused.value.cause, ApplicationError)
        assert refused.value.cause.message == "it waits; nothing runs that could be ended"
        await handle.cancel()


async def test_a_message_that_is_no_decision_is_refused_and_the_attempt_goes_on(client: Client) -> None:
    gate = Gate()
    fakes = FakeActivities(plan=plan())
    fakes.on(RUN_HARNESS, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt()
        await gate.reached.wait()
        with pytest.raises(WorkflowUpdateFailedError):
            await handle.execute_update(END_UPDATE, {"reason": ["not", "a", "text"]})
        gate.opened.set()
        assert (await handle.result()).success


@pytest.mark.parametrize("patterns", [None, ["ended_by_operator", "operator"]])
async def test_what_was_ended_is_judged_and_not_executed_again(
    client: Client, patterns: list[str] | None
) -> None:
    fakes = FakeActivities(plan=plan(retry=retrying(3, patterns)))
    fakes.on(RUN_HARNESS, reporting(ENDED))
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt()).result()
    assert fakes.names().count("run_harness") == fakes.names().count("evaluate") == 1
    assert (outcome.fatal, outcome.error) == (False, True)


async def test_what_a_phase_reported_before_it_failed_is_kept(client: Client) -> None:
    remark = issue(Severity.WARNING, code="acme.odd", message="odd")

    def fail(_: object) -> None:
        raise failed(CRASH, [remark])

    fakes = FakeActivities(plan=plan())
    fakes.on(RUN_HARNESS, fail)
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert fakes.saved[0].issues == [CRASH, remark]


@pytest.mark.parametrize("begins", [False, True])
async def test_an_execution_in_one_step_is_told_whichever_phase_it_is_in(
    client: Client, begins: bool
) -> None:
    """Also one that is executed together with its planning."""
    gate = Gate()
    fakes = FakeActivities(plan=plan(quick_phases=[phase.value for phase in Phase]))
    fakes.on(BEGIN_ATTEMPT if begins else QUICK_EXECUTION, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt(impatient=True, in_one_step=begins)
        await gate.reached.wait()
        told = await handle.execute_update(END_UPDATE, EndAttempt(reason="stalled"), result_type=EndedPhase)
        [written] = fakes.inputs(END_PHASE)
        gate.opened.set()
        await handle.result()
    assert told.phase == "the execution"
    assert (written.end.phase, written.end.reason) == (ANY_PHASE, "stalled")
