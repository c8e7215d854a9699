"""Talk to the pools of providers: for attempts that want a lease, and for the pools themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from temporalio import activity
from temporalio.service import RPCError, RPCStatusCode

from ..contracts.activities import FIND_GONE_HOLDERS, GRANT_LEASES, REQUEST_LEASE, environment_id
from ..contracts.phases import Phase
from ..contracts.pool import LeaseRequest
from ..contracts.upkeep import GoneHolders, GrantInput, HoldersInput, LeaseAnswer, LeaseInput
from ..contracts.workflows import (
    ACQUIRE_SIGNAL,
    LEASE_SIGNAL,
    pool_workflow_id,
)
from .boundary import activity_boundary
from .phase import phase_scope
from .pool_client import ask_pool, is_running, start_pool
from .services import Services

_AT_ONCE = 16
_ASKING_AT_ONCE = 4
"""A server takes ten updates of a workflow at a time, from all workers together."""


class ProviderPools:
    """All of it may run twice: pools and attempts take a repeated word for the same word."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._asking = asyncio.Semaphore(_ASKING_AT_ONCE)

    @activity.defn(name=REQUEST_LEASE.name)
    @activity_boundary
    async def request_lease(self, input: LeaseInput) -> LeaseAnswer:
        """Ask the pool; one that is gone has no limits any more.

        A launch with a rate of its own starts the pool where several processes must keep to that rate.
        """
        phase = Phase.EVALUATE_ENVIRONMENT if input.for_evaluation else Phase.OPEN_ENVIRONMENT
        async with phase_scope(self._services, input.ref, phase) as scope:
            await scope.enter(phase)
            state = scope.store.request_state()
        rate = state.runtime.env_open_qps.get(input.provider, 0.0)
        request = LeaseRequest(
            workflow_id=_own_workflow_id(),
            launch=state.launch_id,
            environment_id=environment_id(input.ref, for_evaluation=input.for_evaluation),
            begun=input.for_evaluation or input.ref.execution > 1,
            open_per_second=rate,
        )
        client = self._services.client
        self._services.pools.found.set()
        if rate and not self._services.settings.private:
            await start_pool(client, input.provider, ACQUIRE_SIGNAL, request)
            return LeaseAnswer(waits=True)
        async with self._asking:
            answer = await ask_pool(client, input.provider, request)
        if answer is not None:
            return LeaseAnswer(waits=answer.grant is None, grant=answer.grant)
        try:
            await client.get_workflow_handle(pool_workflow_id(input.provider)).signal(ACQUIRE_SIGNAL, request)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return LeaseAnswer(waits=False)
        return LeaseAnswer(waits=True)

    @activity.defn(name=GRANT_LEASES.name)
    @activity_boundary
    async def grant_leases(self, input: GrantInput) -> GoneHolders:
        """Tell attempts that they may go on; returns those that are not there any more."""
        client = self._services.client

        async def told(workflow_id: str) -> bool:
            grant = next(grant for grant in input.grants if grant.workflow_id == workflow_id)
            try:
                await client.get_workflow_handle(workflow_id).signal(LEASE_SIGNAL, grant)
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
                return False
            return True

        return GoneHolders(workflow_ids=await _failing([grant.workflow_id for grant in input.grants], told))

    @activity.defn(name=FIND_GONE_HOLDERS.name)
    @activity_boundary
    async def find_gone_holders(self, input: HoldersInput) -> GoneHolders:
        """Attempts whose workflow is over, or not known any more."""
        client = self._services.client

        async def lives(workflow_id: str) -> bool:
            return await is_running(client, workflow_id)

        return GoneHolders(workflow_ids=await _failing(input.workflow_ids, lives))


def _own_workflow_id() -> str:
    found = activity.info().workflow_id
    assert found is not None  # activities of ours are started by workflows
    return found


async def _failing(items: Sequence[str], check: Callable[[str], Awaitable[bool]]) -> list[str]:
    """Those for which ``check`` says no; a few are checked at a time."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def checked(item: str) -> bool:
        async with room:
            return await check(item)

    answers = await asyncio.gather(*map(checked, items))
    return [item for item, answer in zip(items, answers, strict=True) if not answer]
