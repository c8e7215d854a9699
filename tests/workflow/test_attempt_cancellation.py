"""Cancelling an attempt: its environment is closed once, and it ends as cancelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from activity_fakes import LOCAL_PHASES, FakeActivities, Gate, Stubborn, issue, plan, raising, retrying
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError
from workflow_server import stage, until

from agentcompass.contracts.activities import (
    CLOSE_ENVIRONMENT,
    COLLECT_ARTIFACTS,
    EVALUATE,
    OPEN_ENVIRONMENT,
    PLAN_ATTEMPT,
    PREPARE_TASK,
    RUN_HARNESS,
    SAVE_ATTEMPT,
    SAVE_RETRY,
    ActivityStub,
)


@dataclass(frozen=True)
class Case:
    """The phase in which the attempt is cancelled, and the environments closed by then."""

    stub: ActivityStub[Any, Any]
    mode: str
    closed: list[str]


TASK, JUDGE = "-e1", "-e1-v"
CASES = {
    "plan": Case(PLAN_ATTEMPT, "reuse", []),
    "open": Case(OPEN_ENVIRONMENT, "reuse", [TASK]),
    "prepare": Case(PREPARE_TASK, "reuse", [TASK]),
    "run": Case(RUN_HARNESS, "reuse", [TASK]),
    "collect": Case(COLLECT_ARTIFACTS, "reuse", [TASK]),
    "evaluate, reuse": Case(EVALUATE, "reuse", [TASK]),
    "evaluate, none": Case(EVALUATE, "none", [TASK]),
    "evaluate, fresh": Case(EVALUATE, "fresh", [TASK, JUDGE]),
    "close": Case(CLOSE_ENVIRONMENT, "reuse", [TASK]),
}


def closed(fakes: FakeActivities) -> list[str]:
    return [input.handle.id.partition("-a1")[2] for input in fakes.inputs(CLOSE_ENVIRONMENT)]


async def assert_cancelled(handle: WorkflowHandle[Any, Any]) -> None:
    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()
    assert isinstance(caught.value.cause, CancelledError)
    assert (await handle.describe()).status is WorkflowExecutionStatus.CANCELED


QUICK = ["open", "run", "evaluate, fresh", "close"]


@pytest.mark.parametrize(
    ("name", "quick"),
    [*((name, False) for name in CASES), *((name, True) for name in QUICK)],
    ids=[*CASES, *(f"{name}, local" for name in QUICK)],
)
async def test_cancelled_in_a_phase(client: Client, name: str, quick: bool) -> None:
    case = CASES[name]
    phases = LOCAL_PHASES if quick else []
    fakes = FakeActivities(plan=plan(mode=case.mode, collects_artifacts=True, quick_phases=phases))
    gate = Gate()
    fakes.on(case.stub, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt(impatient=True)
        await gate.reached.wait()
        await handle.cancel()
        if case.stub is CLOSE_ENVIRONMENT:
            # Closing is not cancelled: it goes on, and the attempt waits for it.
            await until(lambda: has_event(handle, "workflow_execution_cancel_requested_event_attributes"))
            assert gate.cancelled == 0
            gate.opened.set()
        await assert_cancelled(handle)
    assert closed(fakes) == case.closed
    assert fakes.saved == []
    assert gate.standing == 0


async def has_event(handle: WorkflowHandle[Any, Any], name: str) -> bool:
    return any(event.HasField(name) for event in (await handle.fetch_history()).events)


async def test_a_phase_that_completes_all_the_same_does_not_swallow_the_cancellation(client: Client) -> None:
    fakes = FakeActivities(plan=plan(mode="reuse"))
    stubborn = Stubborn()
    fakes.on(RUN_HARNESS, stubborn)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt()
        await stubborn.reached.wait()
        await handle.cancel()
        await stubborn.asked_to_stop.wait()
        stubborn.opened.set()
        await assert_cancelled(handle)
    assert EVALUATE.name not in fakes.names()
    assert closed(fakes) == [TASK]


async def test_a_phase_that_does_not_listen_is_left_behind(client: Client) -> None:
    fakes = FakeActivities(plan=plan(mode="reuse"))
    stubborn = Stubborn()
    fakes.on(RUN_HARNESS, stubborn)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt(grace=2)
        await stubborn.reached.wait()
        await handle.cancel()
        await assert_cancelled(handle)
        assert closed(fakes) == [TASK]
        stubborn.opened.set()


async def test_a_result_that_is_being_saved_is_not_thrown_away(client: Client) -> None:
    fakes = FakeActivities()
    gate = Gate()
    fakes.on(SAVE_ATTEMPT, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt(impatient=True)
        await gate.reached.wait()
        await handle.cancel()
        await until(lambda: was_told(handle))
        gate.opened.set()
        outcome = await handle.result()
    assert gate.cancelled == 0
    assert (outcome.status, outcome.success) == ("completed", True)


async def was_told(handle: WorkflowHandle[Any, Any]) -> bool:
    """True when the workflow has completed a task that began with the cancellation."""
    types = [event.event_type for event in (await handle.fetch_history()).events]
    requested = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED
    return (
        requested in types
        and EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED in types[types.index(requested) + 2 :]
    )


async def test_a_result_that_cannot_be_saved_does_not_hold_up_the_end(client: Client) -> None:
    fakes = FakeActivities()
    gate = Gate()
    fakes.on(SAVE_ATTEMPT, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt(grace=1, impatient=True)
        await gate.reached.wait()
        await handle.cancel()
        await assert_cancelled(handle)


@pytest.mark.parametrize("where", ["saving the retry", "waiting for it"])
async def test_cancelled_between_two_executions(client: Client, where: str) -> None:
    fakes = FakeActivities(plan=plan(mode="reuse", retry=retrying(1, delay=1000)))
    fakes.on(RUN_HARNESS, raising(issue()))
    gate = Gate()
    if where == "saving the retry":
        fakes.on(SAVE_RETRY, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt(impatient=True)
        if where == "saving the retry":
            await gate.reached.wait()
        else:
            await until(lambda: has_event(handle, "timer_started_event_attributes"))
        await handle.cancel()
        await assert_cancelled(handle)
    assert closed(fakes) == [TASK]
    assert len(fakes.inputs(RUN_HARNESS)) == 1


async def test_a_kept_environment_is_kept_when_cancelled(client: Client) -> None:
    fakes = FakeActivities(plan=plan(keep_environment=True))
    gate = Gate()
    fakes.on(RUN_HARNESS, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt()
        await gate.reached.wait()
        await handle.cancel()
        await assert_cancelled(handle)
    assert closed(fakes) == []


async def test_closing_has_what_is_left_of_the_grace(client: Client) -> None:
    fakes = FakeActivities(plan=plan(mode="reuse"))
    run, close = Gate(), Gate()
    fakes.on(RUN_HARNESS, run)
    fakes.on(CLOSE_ENVIRONMENT, close)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt(grace=40)
        await run.reached.wait()
        await handle.cancel()
        await close.reached.wait()
        close.opened.set()
        await assert_cancelled(handle)
        history = await handle.fetch_history()
    scheduled = [
        event.activity_task_scheduled_event_attributes
        for event in history.events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    total = scheduled[-1].schedule_to_close_timeout.ToTimedelta().total_seconds()
    assert scheduled[-1].activity_type.name == "close_environment"
    assert 30 < total <= 40
    assert closed(fakes) == [TASK]
