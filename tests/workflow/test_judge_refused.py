"""A judge that works in the agent's environment and is refused: the environment waits with its attempt."""

from __future__ import annotations

import pytest
from activity_fakes import FakeActivities, Gate, in_turn, issue, plan, raising
from temporalio.client import Client, WorkflowHandle
from workflow_server import stage, until

from agentcompass.contracts.activities import (
    CLOSE_ENVIRONMENT,
    EVALUATE,
    HOLD_ENVIRONMENT,
    OPEN_ENVIRONMENT,
    RUN_HARNESS,
)
from agentcompass.contracts.issues import IssueCode, IssuePhase, Severity
from agentcompass.contracts.workflows import RESUME_SIGNAL, STOP_SIGNAL

REFUSED = issue(phase=IssuePhase.EVALUATE, code=IssueCode.JUDGE_REFUSED, message="401: the judge's key")
LOST = issue(phase=IssuePhase.EVALUATE, code=IssueCode.ENVIRONMENT_LOST, message="gone")


async def is_paused(handle: WorkflowHandle[object, object]) -> bool:
    return bool((await handle.query("status"))["state"] == "paused")


def waiting(*evaluations: object, **changes: object) -> tuple[FakeActivities, Gate]:
    """Fakes whose environment is held until somebody cancels that."""
    fakes, holding = FakeActivities(["a"], plan=plan(mode="reuse", **changes)), Gate()
    fakes.on(EVALUATE, in_turn(*evaluations))  # type: ignore[arg-type]
    fakes.on(HOLD_ENVIRONMENT, holding)
    return fakes, holding


@pytest.mark.parametrize("times", [1, 2])
async def test_only_the_evaluation_is_repeated_and_the_environment_is_held_meanwhile(
    client: Client, times: int
) -> None:
    fakes, holding = waiting(*[raising(REFUSED)] * times)
    async with stage(client, fakes) as scene:
        handle = await scene.request()
        for number in range(1, times + 1):
            await until(lambda number=number: stands(holding, number))  # type: ignore[misc]
            await until(lambda: is_paused(handle))
            assert fakes.inputs(CLOSE_ENVIRONMENT) == []
            await handle.signal(RESUME_SIGNAL)
        result = await handle.result()
        await until(lambda: is_let_go(holding, times))
    assert result.status == "completed"
    assert len(fakes.inputs(OPEN_ENVIRONMENT)) == len(fakes.inputs(RUN_HARNESS)) == 1
    assert [input.ref.execution for input in fakes.inputs(EVALUATE)] == [1] * (times + 1)
    assert len(fakes.inputs(CLOSE_ENVIRONMENT)) == 1
    [opened] = fakes.inputs(CLOSE_ENVIRONMENT)
    assert [input.handle for input in fakes.inputs(HOLD_ENVIRONMENT)] == [opened.handle] * times
    # On a busy machine a local activity may run again.
    assert {(saved.retry_count, len(saved.issues)) for saved in fakes.saved} == {(0, 0)}


async def stands(gate: Gate, number: int) -> bool:
    return gate.standing == 1 and gate.cancelled == number - 1


async def is_let_go(gate: Gate, times: int) -> bool:
    return gate.cancelled == times


async def test_an_environment_that_is_gone_meanwhile_has_the_attempt_executed_again(client: Client) -> None:
    fakes, holding = waiting(raising(REFUSED), raising(LOST))
    async with stage(client, fakes) as scene:
        handle = await scene.request()
        await holding.reached.wait()
        await until(lambda: is_paused(handle))
        await handle.signal(RESUME_SIGNAL)
        assert (await handle.result()).status == "completed"
    assert [input.ref.execution for input in fakes.inputs(RUN_HARNESS)] == [1, 2]
    assert [input.ref.execution for input in fakes.inputs(EVALUATE)] == [1, 1, 2]
    saved = fakes.saved[-1]
    assert saved.retry_count == 0
    [told] = saved.issues
    assert (told.severity, told.code) == (Severity.WARNING, IssueCode.ENVIRONMENT_LOST)
    assert "the attempt was executed again" in told.message


async def test_an_environment_that_is_lost_without_a_pause_is_no_such_case(client: Client) -> None:
    fakes, _ = waiting(raising(LOST))
    async with stage(client, fakes) as scene:
        await (await scene.request()).result()
    assert [saved.issues for saved in fakes.saved] == [[LOST]]


async def test_a_stop_closes_the_environment_that_was_held(client: Client) -> None:
    fakes, holding = waiting(raising(REFUSED))
    async with stage(client, fakes) as scene:
        handle = await scene.request()
        await holding.reached.wait()
        await until(lambda: is_paused(handle))
        await handle.signal(STOP_SIGNAL, args=["cancelled", "never mind"])
        assert (await handle.result()).status == "cancelled"
        await until(lambda: is_let_go(holding, 1))
    assert len(fakes.inputs(CLOSE_ENVIRONMENT)) == 1


async def test_an_attempt_without_a_request_fails_at_once(client: Client) -> None:
    fakes, _ = waiting(raising(REFUSED))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert [saved.issues for saved in fakes.saved] == [[REFUSED]]
    assert len(fakes.inputs(CLOSE_ENVIRONMENT)) == 1
