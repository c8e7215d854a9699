"""Leases: how a pool hands them out, and how an attempt waits for one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from activity_fakes import FakeActivities, plan
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from workflow_server import Stage, stage, until

from agentcompass.contracts.activities import (
    CLOSE_ENVIRONMENT,
    FIND_GONE_HOLDERS,
    GRANT_LEASES,
    OPEN_ENVIRONMENT,
    REQUEST_LEASE,
    environment_id,
)
from agentcompass.contracts.pool import Grant, LeaseRequest, PoolChange, PoolSettings, PoolState
from agentcompass.contracts.upkeep import GoneHolders, GrantInput, LeaseAnswer, LeaseInput
from agentcompass.contracts.workflows import (
    ACQUIRE_SIGNAL,
    ACQUIRE_UPDATE,
    LEASE_SIGNAL,
    POOL_LIMITS_SIGNAL,
    POOL_WORKFLOW,
    RELEASE_SIGNAL,
    STATUS_QUERY,
    PoolAnswer,
    PoolInput,
    PoolStatus,
)


class Pool:
    """A pool on a stage with fakes, and what it granted."""

    def __init__(self, handle: WorkflowHandle[Any, None], fakes: FakeActivities) -> None:
        self.handle = handle
        self._fakes = fakes

    @property
    def granted(self) -> list[str]:
        inputs: list[GrantInput] = self._fakes.inputs(GRANT_LEASES)
        return [grant.workflow_id for input in inputs for grant in input.grants]

    async def acquire(self, name: str, launch: str = "l") -> None:
        request = LeaseRequest(workflow_id=name, launch=launch, environment_id=f"env-{name}")
        await self.handle.signal(ACQUIRE_SIGNAL, request)

    async def acquire_now(self, name: str) -> Grant | None:
        request = LeaseRequest(workflow_id=name, launch="l", environment_id=f"env-{name}")
        answer = await self.handle.execute_update(ACQUIRE_UPDATE, request, result_type=PoolAnswer)
        return answer.grant

    async def release(self, name: str) -> None:
        await self.handle.signal(RELEASE_SIGNAL, args=[name, f"env-{name}"])

    async def limits(self, **limits: Any) -> None:
        await self.handle.signal(POOL_LIMITS_SIGNAL, PoolChange(**limits))

    async def status(self) -> PoolStatus:
        return await self.handle.query(STATUS_QUERY, result_type=PoolStatus)

    async def until_granted(self, *names: str) -> None:
        async def granted() -> bool:
            return self.granted == list(names)

        await until(granted)


@contextlib.asynccontextmanager
async def running_pool(client: Client, fakes: FakeActivities, **settings: Any) -> AsyncIterator[Pool]:
    async with stage(client, fakes) as scene:
        state = PoolState(settings=PoolSettings(**settings))
        handle = await client.start_workflow(
            POOL_WORKFLOW,
            PoolInput(provider="sandbox", state=state),
            id=f"pool/{uuid.uuid4().hex[:8]}",
            task_queue=scene.queue,
        )
        yield Pool(handle, fakes)
        if (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            await handle.terminate()


async def test_a_place_that_comes_free_goes_to_the_next(client: Client) -> None:
    async with running_pool(client, FakeActivities(), capacity=1) as pool:
        for name in ("a", "b"):
            await pool.acquire(name)
        await pool.until_granted("a")
        status = await pool.status()
        assert (status.held, status.waiting) == ({"l": 1}, {"l": 1})
        await pool.release("a")
        await pool.until_granted("a", "b")


async def test_who_asks_while_there_is_a_place_is_answered_and_the_others_are_told(client: Client) -> None:
    async with running_pool(client, FakeActivities(), capacity=1) as pool:
        answered = await pool.acquire_now("a")
        assert answered == Grant(workflow_id="a", environment_id="env-a", not_before=answered.not_before)
        assert await pool.acquire_now("a") is not None  # asked again, the same place
        assert await pool.acquire_now("b") is None
        assert pool.granted == []
        await pool.release("a")
        await pool.until_granted("b")
        assert (await pool.status()).held == {"l": 1}


async def test_a_lease_costs_few_events(client: Client) -> None:
    count = 30
    async with running_pool(client, FakeActivities(), capacity=1) as pool:
        for number in range(count):
            await pool.acquire(f"w{number}")
        for number in range(count):
            await pool.until_granted(*(f"w{before}" for before in range(number + 1)))
            await pool.release(f"w{number}")
        history = await pool.handle.fetch_history()
    assert len(history.events) <= 10 * count


async def test_places_of_attempts_that_are_gone_come_free(
    client: Client, server: WorkflowEnvironment
) -> None:
    fakes = FakeActivities()
    fakes.on(
        FIND_GONE_HOLDERS, lambda input: GoneHolders(workflow_ids=[w for w in input.workflow_ids if w == "a"])
    )
    async with running_pool(client, fakes, capacity=1) as pool:
        await pool.acquire("a")
        await pool.until_granted("a")
        await server.sleep(300)
        assert fakes.inputs(FIND_GONE_HOLDERS) == []  # nobody waits, so nobody misses the place
        await pool.acquire("b")
        await server.sleep(60)
        await pool.until_granted("a", "b")


async def test_an_attempt_that_is_over_when_it_is_told_takes_no_place(client: Client) -> None:
    fakes = FakeActivities()
    fakes.on(
        GRANT_LEASES,
        lambda input: GoneHolders(workflow_ids=[g.workflow_id for g in input.grants if g.workflow_id == "a"]),
    )
    async with running_pool(client, fakes, capacity=1) as pool:
        for name in ("a", "b"):
            await pool.acquire(name)
        await pool.until_granted("a", "b")


async def test_a_rate_spaces_the_turns(client: Client) -> None:
    fakes = FakeActivities()
    async with running_pool(client, fakes, open_per_second=0.5) as pool:
        for number in range(3):
            await pool.acquire(f"w{number}")
        await pool.until_granted("w0", "w1", "w2")
        turns = [grant.not_before for input in fakes.inputs(GRANT_LEASES) for grant in input.grants]
        assert [later - earlier >= 2 for earlier, later in itertools.pairwise(turns)] == [
            True,
            True,
        ]


async def test_a_pool_ends_when_its_limits_are_off(client: Client) -> None:
    async with running_pool(client, FakeActivities(), capacity=1) as pool:
        for name in ("a", "b"):
            await pool.acquire(name)
        await pool.until_granted("a")
        await pool.limits(capacity=0)
        await pool.handle.result()
        assert pool.granted == ["a", "b"]


async def test_bad_messages_change_nothing(client: Client) -> None:
    async with running_pool(client, FakeActivities(), capacity=1) as pool:
        await pool.handle.signal(ACQUIRE_SIGNAL, {"workflow_id": 1})
        await pool.handle.signal(POOL_LIMITS_SIGNAL, {"capacity": -1})
        await pool.handle.signal(RELEASE_SIGNAL)
        await pool.acquire("a")
        await pool.until_granted("a")
        assert (await pool.status()).settings == PoolSettings(capacity=1)


@contextlib.asynccontextmanager
async def pooled_stage(client: Client) -> AsyncIterator[tuple[Stage, FakeActivities]]:
    fakes = FakeActivities(plan=plan(pooled=["sandbox"]))
    fakes.on(REQUEST_LEASE, lambda _: LeaseAnswer(waits=True))
    async with stage(client, fakes) as scene:
        yield scene, fakes


async def asked(fakes: FakeActivities, times: int = 1) -> None:
    async def has_asked() -> bool:
        return len(fakes.inputs(REQUEST_LEASE)) == times

    await until(has_asked)


def own_environment(fakes: FakeActivities) -> str:
    return environment_id(fakes.inputs(REQUEST_LEASE)[0].ref)


async def test_an_attempt_opens_nothing_before_its_turn(client: Client) -> None:
    async with pooled_stage(client) as (scene, fakes):
        handle = await scene.attempt()
        await asked(fakes)
        await handle.signal(LEASE_SIGNAL, Grant(workflow_id=handle.id, environment_id="of-an-earlier-one"))
        await asyncio.sleep(0.2)  # nothing tells that nothing happens
        assert fakes.inputs(OPEN_ENVIRONMENT) == []
        grant = Grant(workflow_id=handle.id, environment_id=own_environment(fakes), not_before=12.5)
        await handle.signal(LEASE_SIGNAL, grant)
        assert (await handle.result()).success
    [opened], [closed] = fakes.inputs(OPEN_ENVIRONMENT), fakes.inputs(CLOSE_ENVIRONMENT)
    assert (opened.not_before, closed.pool) == (12.5, "sandbox")


async def test_an_attempt_that_is_answered_with_a_grant_waits_for_nothing(client: Client) -> None:
    async with pooled_stage(client) as (scene, fakes):
        fakes.on(REQUEST_LEASE, lambda input: granted_at_once(input, 12.5))
        handle = await scene.attempt()
        await handle.result()
        history = [event.event_type for event in (await handle.fetch_history()).events]
    [opened] = fakes.inputs(OPEN_ENVIRONMENT)
    assert opened.not_before == 12.5
    assert EventType.EVENT_TYPE_TIMER_STARTED not in history


def granted_at_once(input: LeaseInput, not_before: float) -> LeaseAnswer:
    grant = Grant(workflow_id="w", environment_id=environment_id(input.ref), not_before=not_before)
    return LeaseAnswer(waits=False, grant=grant)


async def test_an_attempt_goes_on_without_a_pool_that_is_gone(client: Client) -> None:
    async with pooled_stage(client) as (scene, fakes):
        handle = await scene.attempt()
        await asked(fakes)
        fakes.on(REQUEST_LEASE, lambda _: LeaseAnswer(waits=False))
        assert (await handle.result()).success  # after a quarter of an hour of the server's time
    [opened] = fakes.inputs(OPEN_ENVIRONMENT)
    assert opened.not_before is None and len(fakes.inputs(REQUEST_LEASE)) == 2


async def test_an_attempt_that_is_cancelled_while_it_waits_gives_up_its_place_in_the_queue(
    client: Client,
) -> None:
    async with pooled_stage(client) as (scene, fakes):
        handle = await scene.attempt()
        await asked(fakes)
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    assert fakes.inputs(OPEN_ENVIRONMENT) == []
    assert [closed.pool for closed in fakes.inputs(CLOSE_ENVIRONMENT)] == ["sandbox"]


async def test_the_fresh_environment_of_the_judge_takes_a_lease_of_its_own(client: Client) -> None:
    fakes = FakeActivities(plan=plan(pooled=["sandbox"], mode="fresh"))
    async with stage(client, fakes) as scene:
        await (await scene.attempt()).result()
    assert [input.for_evaluation for input in fakes.inputs(REQUEST_LEASE)] == [False, True]
    assert fakes.names().index("close_environment") < len(fakes.names()) - 1 - fakes.names()[::-1].index(
        "request_lease"
    )
