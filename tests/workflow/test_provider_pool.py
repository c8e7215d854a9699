"""Leases: how a pool hands them out, and how attempts wait for them."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from activity_fakes import FakeActivities, Gate, plan
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from workflow_server import real_server, stage, until

from agentcompass.activities.places import Places
from agentcompass.contracts.activities import CLOSE_ENVIRONMENT, OPEN_ENVIRONMENT
from agentcompass.contracts.pool import (
    Grant,
    LeaseRequest,
    Place,
    PlacesAnswer,
    PlacesAsked,
    PoolChange,
    PoolSettings,
    PoolState,
)
from agentcompass.contracts.workflows import (
    ACQUIRE_SIGNAL,
    ACQUIRE_UPDATE,
    GONE_SIGNAL,
    PLACES_QUERY,
    POOL_LIMITS_SIGNAL,
    POOL_WORKFLOW,
    RELEASE_SIGNAL,
    STATUS_QUERY,
    PoolAnswer,
    PoolInput,
    PoolStatus,
    pool_workflow_id,
)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    """Instead of the server of the other tests of this folder: what a lease costs is to be known of the one that users have."""
    async with real_server() as environment:
        yield environment


def request(name: str, launch: str = "l", **more: Any) -> LeaseRequest:
    return LeaseRequest(workflow_id=name, launch=launch, environment_id=f"env-{name}", **more)


class Pool:
    """A pool on a stage."""

    def __init__(self, handle: WorkflowHandle[Any, None], provider: str) -> None:
        self.handle = handle
        self.provider = provider

    async def acquire(self, name: str) -> None:
        await self.handle.signal(ACQUIRE_SIGNAL, request(name))

    async def acquire_now(self, name: str) -> Grant | None:
        answer = await self.handle.execute_update(ACQUIRE_UPDATE, request(name), result_type=PoolAnswer)
        return answer.grant

    async def release(self, name: str) -> None:
        await self.handle.signal(RELEASE_SIGNAL, args=[name, f"env-{name}"])

    async def limits(self, **limits: Any) -> None:
        await self.handle.signal(POOL_LIMITS_SIGNAL, PoolChange(**limits))

    async def status(self) -> PoolStatus:
        return await self.handle.query(STATUS_QUERY, result_type=PoolStatus)

    async def ask(self, *names: str, with_members: bool = False) -> PlacesAnswer:
        places = [Place(workflow_id=name, environment_id=f"env-{name}") for name in names]
        asked = PlacesAsked(places=places, with_members=with_members)
        return await self.handle.query(PLACES_QUERY, asked, result_type=PlacesAnswer)

    async def granted(self, *names: str) -> list[str]:
        return [grant.workflow_id for grant in (await self.ask(*names)).granted]


@contextlib.asynccontextmanager
async def running_pool(client: Client, **settings: Any) -> AsyncIterator[Pool]:
    async with stage(client, FakeActivities()) as scene:
        provider = f"sandbox-{uuid.uuid4().hex[:8]}"
        handle = await client.start_workflow(
            POOL_WORKFLOW,
            PoolInput(provider=provider, state=PoolState(settings=PoolSettings(**settings))),
            id=pool_workflow_id(provider),
            task_queue=scene.queue,
        )
        yield Pool(handle, provider)
        if (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            await handle.terminate()


async def test_a_place_that_comes_free_goes_to_the_next(client: Client) -> None:
    async with running_pool(client, capacity=1) as pool:
        for name in ("a", "b"):
            await pool.acquire(name)
        assert await pool.granted("a", "b") == ["a"]
        status = await pool.status()
        assert (status.held, status.waiting) == ({"l": 1}, {"l": 1})
        await pool.release("a")
        assert await pool.granted("a", "b") == ["b"]


async def test_who_asks_while_there_is_a_place_is_answered_and_the_others_have_to_wait(
    client: Client,
) -> None:
    async with running_pool(client, capacity=1) as pool:
        first = await pool.acquire_now("a")
        assert first is not None
        assert await pool.acquire_now("a") == first  # asked again, the same place
        assert await pool.acquire_now("b") is None
        answer = await pool.ask("a", "b", "unknown")
        assert (answer.granted, answer.members) == ([first], [])
        assert answer.waiting == [Place(workflow_id="b", environment_id="env-b")]
        assert (await pool.ask("b", with_members=True)).members == ["a", "b"]
        await pool.release("a")
        assert (await pool.status()).held == {"l": 1}
        assert (await pool.ask(with_members=True)).members == []  # nobody waits, so nobody misses a place


async def test_a_lease_that_has_to_be_waited_for_costs_at_most_ten_events(client: Client) -> None:
    """One after the other, which leaves nothing to share: the question, the return, and a workflow task for each."""
    count = 30
    async with running_pool(client, capacity=1) as pool:
        for number in range(count):
            assert (await pool.acquire_now(f"w{number}") is None) is (number > 0)
        for number in range(count):
            assert await pool.granted(f"w{number}") == [f"w{number}"]
            await pool.release(f"w{number}")
        await until(lambda: holds_nobody(pool))
        history = await pool.handle.fetch_history()
    assert len(history.events) <= 10 * count


async def holds_nobody(pool: Pool) -> bool:
    return not (await pool.status()).held


async def test_those_that_wait_in_one_process_get_their_places_in_turn(client: Client) -> None:
    most, inside = 0, 0
    async with running_pool(client, capacity=2) as pool:
        places = Places(client)

        async def attempt(name: str) -> None:
            nonlocal most, inside
            grant = await places.take(pool.provider, request(name))
            assert grant is not None and grant.environment_id == f"env-{name}"
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1
            await places.give_back(pool.provider, name, f"env-{name}")

        await asyncio.wait_for(asyncio.gather(*(attempt(f"w{number}") for number in range(12))), 60)
    assert most == 2


async def test_few_of_a_launch_are_in_line_at_a_time_and_all_get_their_place(
    client: Client, monkeypatch: Any
) -> None:
    monkeypatch.setattr("agentcompass.activities.places._IN_LINE", 3)
    async with running_pool(client, capacity=1) as pool:
        places, order = Places(client), []
        assert await pool.acquire_now("first") is not None

        async def attempt(name: str, **more: Any) -> None:
            assert await places.take(pool.provider, request(name).model_copy(update=more)) is not None
            order.append(name)
            assert (await pool.status()).waiting.get("l", 0) <= 4
            await places.give_back(pool.provider, name, f"env-{name}")

        waiting = [asyncio.create_task(attempt(f"w{number}")) for number in range(9)]
        await until(lambda: so_many_wait(pool, 3))
        begun = asyncio.create_task(attempt("begun", begun=True))
        await until(lambda: so_many_wait(pool, 4))  # it is let in at once
        for given_up in (waiting.pop(5), waiting.pop(4)):
            given_up.cancel()
        await pool.release("first")
        await asyncio.wait_for(asyncio.gather(begun, *waiting), 60)
    assert order[0] == "begun" and sorted(order[1:]) == ["w0", "w1", "w2", "w3", "w6", "w7", "w8"]
    assert places._before == {}


async def so_many_wait(pool: Pool, count: int) -> bool:
    return (await pool.status()).waiting == {"l": count}


async def test_a_steps_verifier_gets_a_place_beside_its_attempts_own_and_nobody_else_gets_either(
    client: Client,
) -> None:
    async with running_pool(client, capacity=1) as pool:
        places, verifier = Places(client), request("a").model_copy(update={"environment_id": "env-a-s1-v"})
        assert await places.take(pool.provider, request("a")) is not None
        waiting = asyncio.create_task(places.take(pool.provider, request("b")))
        await until(lambda: somebody_waits(pool))
        granted = await asyncio.wait_for(places.take(pool.provider, verifier), 120)
        assert granted is not None and granted.environment_id == "env-a-s1-v"
        assert (await pool.status()).held == {"l": 2}
        await places.give_back(pool.provider, "a", "env-a-s1-v")
        status = await pool.status()
        assert (status.held, status.waiting, waiting.done()) == ({"l": 1}, {"l": 1}, False)
        await places.give_back(pool.provider, "a", "env-a")
        assert await asyncio.wait_for(waiting, 120) is not None


async def test_a_place_of_an_attempt_that_is_gone_comes_free(client: Client, monkeypatch: Any) -> None:
    monkeypatch.setattr("agentcompass.activities.places._MEMBERS_SECONDS", 0.2)
    async with running_pool(client, capacity=1) as pool, stage(client, FakeActivities()) as scene:
        held = Gate()
        scene.fakes.on(OPEN_ENVIRONMENT, held)
        waits = await scene.attempt()
        await held.reached.wait()
        assert await pool.acquire_now("gone") is not None
        await pool.acquire("gone-too")
        granted = await asyncio.wait_for(Places(client).take(pool.provider, request(waits.id)), 60)
        assert granted is not None and (await pool.status()).waiting == {}
        held.opened.set()
        await waits.result()


async def test_attempts_that_are_gone_hold_nothing(client: Client) -> None:
    async with running_pool(client, capacity=1) as pool:
        for name in ("a", "b", "c"):
            await pool.acquire(name)
        await pool.handle.signal(GONE_SIGNAL, args=["a", "b", 7])
        assert await pool.granted("a", "b", "c") == ["c"]


async def test_who_waits_for_a_pool_that_is_terminated_goes_on_without_it(
    client: Client, monkeypatch: Any
) -> None:
    monkeypatch.setattr("agentcompass.activities.places._FORGOTTEN_SECONDS", 0.1)
    async with running_pool(client, capacity=1) as pool:
        await pool.acquire_now("a")
        waiting = asyncio.create_task(Places(client).take(pool.provider, request("b")))
        await until(lambda: somebody_waits(pool))
        await pool.handle.terminate()
        assert await asyncio.wait_for(waiting, 60) is None


async def somebody_waits(pool: Pool) -> bool:
    return bool((await pool.status()).waiting)


async def test_who_waits_asks_again_where_the_pool_forgot_it(client: Client, monkeypatch: Any) -> None:
    """As after a pool was terminated and set anew."""
    monkeypatch.setattr("agentcompass.activities.places._FORGOTTEN_SECONDS", 0.1)
    async with running_pool(client, capacity=1) as pool:
        await pool.acquire_now("a")
        waiting = asyncio.create_task(Places(client).take(pool.provider, request("b")))
        await until(lambda: somebody_waits(pool))
        await pool.handle.signal(GONE_SIGNAL, args=["a", "b"])
        granted = await asyncio.wait_for(waiting, 60)
    assert granted is not None


async def test_a_rate_spaces_the_turns(client: Client) -> None:
    async with running_pool(client, open_per_second=0.5) as pool:
        for number in range(3):
            await pool.acquire(f"w{number}")
        turns = [grant.not_before for grant in (await pool.ask("w0", "w1", "w2")).granted]
    assert len(turns) == 3
    assert turns[1] - turns[0] >= 2 and turns[2] - turns[1] >= 2


async def test_a_pool_ends_when_its_limits_are_off(client: Client) -> None:
    async with running_pool(client, capacity=1) as pool:
        for name in ("a", "b"):
            await pool.acquire(name)
        await pool.limits(capacity=0)
        await pool.handle.result()
        assert await pool.granted("a", "b") == ["a", "b"]


async def test_a_larger_capacity_serves_those_that_wait(client: Client) -> None:
    async with running_pool(client, capacity=1) as pool:
        for name in ("a", "b", "c"):
            await pool.acquire(name)
        await pool.limits(capacity=2)
        assert await pool.granted("a", "b", "c") == ["a", "b"]


async def test_bad_messages_change_nothing(client: Client) -> None:
    async with running_pool(client, capacity=1) as pool:
        await pool.handle.signal(ACQUIRE_SIGNAL, {"workflow_id": 1})
        await pool.handle.signal(POOL_LIMITS_SIGNAL, {"capacity": -1})
        await pool.handle.signal(RELEASE_SIGNAL)
        await pool.handle.signal(GONE_SIGNAL, {"workflow_id": "a"})
        await pool.acquire("a")
        assert await pool.granted("a") == ["a"]
        assert (await pool.status()).settings == PoolSettings(capacity=1)


async def test_an_attempt_waits_for_its_place_in_the_opening_and_adds_no_event(client: Client) -> None:
    lengths = []
    for pooled in ([], ["sandbox"]):
        fakes = FakeActivities(plan=plan(pooled=pooled))
        async with stage(client, fakes, places=True) as scene:
            handle = await scene.attempt()
            assert (await handle.result()).success
            lengths.append(len((await handle.fetch_history()).events))
        [opened], [closed] = fakes.inputs(OPEN_ENVIRONMENT), fakes.inputs(CLOSE_ENVIRONMENT)
        assert (opened.pooled, closed.pool) == (bool(pooled), "sandbox" if pooled else "")
    assert lengths[0] == lengths[1]


async def test_an_attempt_that_is_cancelled_while_it_waits_gives_up_its_place_in_the_queue(
    client: Client,
) -> None:
    fakes, waiting = FakeActivities(plan=plan(pooled=["sandbox"])), Gate()
    fakes.on(OPEN_ENVIRONMENT, waiting)
    async with stage(client, fakes, places=True) as scene:
        handle = await scene.attempt(grace=5)
        await waiting.reached.wait()
        await handle.cancel()
        with pytest.raises(WorkflowFailureError):
            await handle.result()
    assert [closed.pool for closed in fakes.inputs(CLOSE_ENVIRONMENT)] == ["sandbox"]


async def test_the_fresh_environment_of_the_judge_takes_a_lease_of_its_own(client: Client) -> None:
    fakes = FakeActivities(plan=plan(pooled=["sandbox"], mode="fresh"))
    async with stage(client, fakes, places=True) as scene:
        await (await scene.attempt()).result()
    opened = fakes.inputs(OPEN_ENVIRONMENT)
    assert [(input.for_evaluation, input.pooled) for input in opened] == [(False, True), (True, True)]
    first, second = (place for place, name in enumerate(fakes.names()) if name == OPEN_ENVIRONMENT.name)
    assert CLOSE_ENVIRONMENT.name in fakes.names()[first:second]
