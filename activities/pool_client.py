"""Reaching the pools of providers from outside of workflows."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import timedelta

from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError, RPCStatusCode

from ..contracts.pool import LeaseRequest
from ..contracts.workflows import (
    ACQUIRE_UPDATE,
    POOL_QUEUE,
    POOL_WORKFLOW,
    RELEASE_SIGNAL,
    PoolAnswer,
    PoolInput,
    pool_workflow_id,
)

_PATIENCE = timedelta(seconds=5)
"""How long an attempt waits for the pool's word before it has itself told by a signal."""
_log = logging.getLogger(__name__)


class KnownPools:
    """Which providers have a pool; asked every few seconds at most."""

    def __init__(self, client: Client, *, seconds: float = 5.0) -> None:
        self._client = client
        self._seconds = seconds
        self._known: dict[str, tuple[float, bool]] = {}
        self.found = asyncio.Event()
        """Set when there is any: somebody has to serve it."""

    async def look(self) -> None:
        """Look whether there is any pool. Raises ``RPCError`` when the server does not tell."""
        query = f'WorkflowType = "{POOL_WORKFLOW}" AND ExecutionStatus = "Running"'
        async for _ in self._client.list_workflows(query, limit=1):
            self.found.set()

    async def has(self, provider: str) -> bool:
        """Whether the provider has a pool now. Raises ``RPCError`` when the server does not tell."""
        asked_at, answer = self._known.get(provider, (float("-inf"), False))
        if time.monotonic() - asked_at >= self._seconds:
            answer = await is_running(self._client, pool_workflow_id(provider))
            self._known[provider] = (time.monotonic(), answer)
        if answer:
            self.found.set()
        return answer


async def ask_pool(client: Client, provider: str, request: LeaseRequest) -> PoolAnswer | None:
    """Ask for a place and hear at once; ``None`` when there is no answer, and the pool has to be sent a signal.

    A pool that is gone, one that continues as new in this moment, and one that too many ask at a time.
    """
    try:
        answer: PoolAnswer = await client.get_workflow_handle(pool_workflow_id(provider)).execute_update(
            ACQUIRE_UPDATE, request, result_type=PoolAnswer, rpc_timeout=_PATIENCE
        )
    except (RPCError, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
        # Also without any answer in time; asked again, a pool grants once more what it has granted.
        _log.debug("the pool of %s did not answer: %s", provider, error)
        return None
    return answer


async def release_place(client: Client, provider: str, workflow_id: str, environment_id: str) -> None:
    """The environment is gone, and its place is free; a pool that is gone needs not be told."""
    try:
        pool = client.get_workflow_handle(pool_workflow_id(provider))
        await pool.signal(RELEASE_SIGNAL, args=[workflow_id, environment_id])
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise


async def start_pool(client: Client, provider: str, signal: str, argument: object) -> None:
    """Send a signal to the pool of a provider, which is started if there is none."""
    await client.start_workflow(
        POOL_WORKFLOW,
        PoolInput(provider=provider),
        id=pool_workflow_id(provider),
        task_queue=POOL_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        start_signal=signal,
        start_signal_args=[argument],
        static_summary=f"places and turns at {provider}",
    )


async def is_running(client: Client, workflow_id: str) -> bool:
    """Whether a workflow is not over; False for one that nobody knows."""
    try:
        found = await client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return found.status is WorkflowExecutionStatus.RUNNING
