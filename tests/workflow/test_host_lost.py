"""An environment lives on one host, and no worker of that host is there.

On the server that users have: time does not skip in the other one while an activity waits.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from activity_fakes import FakeActivities, Gate, plan, retrying
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker
from workflow_server import real_server, stage, until

from agentcompass.contracts.activities import (
    BE_PRESENT,
    CLOSE_ENVIRONMENT,
    EVALUATE,
    OPEN_ENVIRONMENT,
    PREPARE_TASK,
    RUN_HARNESS,
    SAVE_RETRY,
    ActivityStub,
    OpenedEnvironment,
    OpenEnvironmentInput,
    environment_id,
)
from agentcompass.contracts.environment import EnvironmentHandle
from agentcompass.contracts.retries import RetryScope
from agentcompass.contracts.workflows import END_UPDATE, EndAttempt, presence_queue

HOST = "host/gone"
SECONDS = 0.5
"""After which a host of these tests is lost."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    """Instead of the server of the other tests of this folder."""
    async with real_server() as environment:
        yield environment


def opened_on_host(input: OpenEnvironmentInput, *, times: int, evaluation: bool = False) -> OpenedEnvironment:
    """The environments of the first ``times`` executions live on the host, all others anywhere."""
    found = environment_id(input.ref, for_evaluation=input.for_evaluation)
    on_host = input.for_evaluation is evaluation and input.ref.execution <= times
    return OpenedEnvironment(
        handle=EnvironmentHandle(provider="sandbox", id=found), task_queue=HOST if on_host else None
    )


def on_a_host(times: int, *, evaluation: bool = False, **changes: Any) -> FakeActivities:
    fakes = FakeActivities(plan=plan(**changes))
    fakes.on(OPEN_ENVIRONMENT, lambda input: opened_on_host(input, times=times, evaluation=evaluation))
    return fakes


@contextlib.asynccontextmanager
async def serving(
    client: Client, queue: str, fakes: FakeActivities, *stubs: ActivityStub[Any, Any]
) -> AsyncIterator[None]:
    """A worker of a host, for some activities only."""
    chosen = [fakes._fake(stub) for stub in stubs]
    async with Worker(client, task_queue=queue, activities=chosen):
        yield


async def test_an_attempt_whose_host_is_gone_is_executed_again_elsewhere(client: Client) -> None:
    fakes = on_a_host(1)
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt(host_lost_after=SECONDS)).result()
    assert (outcome.status, outcome.fatal) == ("completed", False)
    [saved] = fakes.saved
    assert (saved.ref.execution, saved.retry_count, saved.issues) == (2, 0, [])
    [lost] = fakes.inputs(SAVE_RETRY)
    assert (lost.loss, lost.retry, lost.matched_pattern, lost.scope) == (1, 0, "host_lost", "attempt")
    assert "host/gone was there for 0.5 s" in lost.issues[0].message
    # Nobody could have closed the first one; the next worker of its host does.
    assert [input.ref.execution for input in fakes.inputs(CLOSE_ENVIRONMENT)] == [2]


async def test_losses_are_bounded_and_the_next_one_is_a_retry_or_the_attempts_issue(client: Client) -> None:
    fakes = on_a_host(99, retry=retrying(1))
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt(host_lost_after=SECONDS)).result()
    assert outcome.fatal
    assert [found.code for found in fakes.saved[0].issues] == ["host_lost"]
    told = [(input.loss, input.retry, input.matched_pattern) for input in fakes.inputs(SAVE_RETRY)]
    assert told == [(1, 0, "host_lost"), (2, 0, "host_lost"), (3, 0, "host_lost"), (0, 1, "fatal")]
    assert (fakes.saved[0].ref.execution, fakes.saved[0].retry_count) == (5, 1)


async def test_only_the_evaluation_is_repeated_when_its_own_host_is_gone(client: Client) -> None:
    fakes = on_a_host(1, evaluation=True, mode="fresh")
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt(host_lost_after=SECONDS)).result()
    assert outcome.status == "completed"
    assert [input.scope for input in fakes.inputs(SAVE_RETRY)] == [RetryScope.EVALUATE]
    assert len(fakes.inputs(RUN_HARNESS)) == 1
    assert len(fakes.inputs(EVALUATE)) == 1


async def test_the_host_of_a_step_s_verifier_takes_the_agent_s_environment_not_along(client: Client) -> None:
    fakes = on_a_host(1, evaluation=True, mode="reuse", steps=[plan(mode="fresh")])
    async with stage(client, fakes) as scene:
        outcome = await (await scene.attempt(host_lost_after=SECONDS)).result()
    assert outcome.status == "completed"
    [lost, again] = [input.handle.id for input in fakes.inputs(RUN_HARNESS) if input.handle]
    assert lost != again
    assert {lost, again} <= {input.handle.id for input in fakes.inputs(CLOSE_ENVIRONMENT)}


async def test_a_busy_host_that_says_it_is_there_is_waited_for(client: Client) -> None:
    fakes, asked = on_a_host(1), Gate()
    asked.opened.set()
    fakes.on(BE_PRESENT, asked)
    phases = (PREPARE_TASK, RUN_HARNESS, CLOSE_ENVIRONMENT)
    async with stage(client, fakes) as scene, serving(client, presence_queue(HOST), fakes, BE_PRESENT):
        handle = await scene.attempt(host_lost_after=SECONDS)
        await asked.reached.wait()
        async with serving(client, HOST, fakes, *phases):
            outcome = await handle.result()
    assert (outcome.status, fakes.saved[0].ref.execution) == ("completed", 1)
    assert fakes.inputs(SAVE_RETRY) == []


async def test_a_host_that_is_gone_at_the_end_leaves_a_warning_beside_the_score(client: Client) -> None:
    fakes = on_a_host(1)
    async with stage(client, fakes) as scene, serving(client, HOST, fakes, PREPARE_TASK, RUN_HARNESS):
        handle = await scene.attempt(host_lost_after=SECONDS)
        outcome = await handle.result()
    assert (outcome.status, outcome.warning, outcome.fatal) == ("completed", True, False)
    assert [(found.severity, found.code) for found in fakes.saved[0].issues] == [("warning", "host_lost")]


async def test_without_a_limit_a_host_is_waited_for(client: Client) -> None:
    fakes = on_a_host(1)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt(host_lost_after=0)
        async with serving(client, HOST, fakes, PREPARE_TASK, RUN_HARNESS, CLOSE_ENVIRONMENT):
            outcome = await handle.result()
        timeouts = [
            event.activity_task_scheduled_event_attributes.schedule_to_start_timeout.ToSeconds()
            for event in (await handle.fetch_history()).events
            if event.HasField("activity_task_scheduled_event_attributes")
        ]
    assert outcome.status == "completed"
    assert set(timeouts) == {0}


async def test_cancelling_does_not_wait_for_a_host_that_is_gone(client: Client) -> None:
    fakes = on_a_host(1)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt(grace=1)
        await until(lambda: is_scheduled(handle, PREPARE_TASK))
        await handle.cancel()
        with pytest.raises(WorkflowFailureError) as failure:
            await handle.result()
        assert isinstance(failure.value.cause, CancelledError)
        assert await is_scheduled(handle, CLOSE_ENVIRONMENT)
        assert not await is_scheduled(handle, BE_PRESENT)


async def is_scheduled(handle: WorkflowHandle[Any, Any], stub: ActivityStub[Any, Any]) -> bool:
    return any(
        event.activity_task_scheduled_event_attributes.activity_type.name == stub.name
        for event in (await handle.fetch_history()).events
    )


async def test_what_an_operator_ended_is_not_executed_again_elsewhere(client: Client) -> None:
    fakes = on_a_host(1)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt(host_lost_after=2.0)
        await until(lambda: is_scheduled(handle, PREPARE_TASK))
        await handle.execute_update(END_UPDATE, EndAttempt(reason="enough"))
        await handle.result()
    assert fakes.inputs(SAVE_RETRY) == []
    [saved] = fakes.saved
    assert saved.ref.execution == 1
    found = [(item.severity, item.code) for item in saved.issues if item.severity != "warning"]
    assert found == [("error", "host_lost"), ("error", "ended_by_operator")]
