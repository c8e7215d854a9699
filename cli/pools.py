"""Limits of environment providers over all launches, for ``agentcompass pool``."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from pydantic import ValidationError
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowHistory, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from ..activities.pool_client import start_pool
from ..contracts.base import Contract
from ..contracts.pool import PoolChange, PoolSettings
from ..contracts.workflows import (
    POOL_LIMITS_SIGNAL,
    POOL_WORKFLOW,
    STATUS_QUERY,
    PoolInput,
    PoolStatus,
    pool_workflow_id,
)
from ..plugins.registry import load_registry
from .cluster_setup import check_set_up
from .launch_handle import call
from .launcher import open_connection

_PATIENCE = timedelta(seconds=3)


class ListedPool(Contract):
    """One line of ``pool list``."""

    status: PoolStatus
    served: bool = True
    """False when no worker runs it: then nobody waits for it either, and only its limits are known."""


async def set_limits(provider: str, change: PoolChange) -> PoolSettings | None:
    """Set limits of a provider, and return what it has now; ``None`` when there was nothing to set.

    Raises ``UnknownComponentError`` for a provider that is not installed.
    """
    load_registry().get_environment(provider)
    connection = await open_connection()
    await check_set_up(connection)
    client = connection.client
    before = await _known_limits(client, provider)
    wanted = PoolSettings(
        **{**(before or PoolSettings()).model_dump(), **change.model_dump(exclude_none=True)}
    )
    if before is None and wanted.off:
        return None
    await call(lambda: start_pool(client, provider, POOL_LIMITS_SIGNAL, change))
    return wanted


async def list_pools() -> list[ListedPool]:
    """Every pool, by its provider."""
    client = (await open_connection()).client
    query = f'WorkflowType = "{POOL_WORKFLOW}" AND ExecutionStatus = "Running"'
    ids = {item.id async for item in client.list_workflows(query)}
    found = await asyncio.gather(*(_listed(client, workflow_id) for workflow_id in ids))
    return sorted((item for item in found if item is not None), key=lambda item: item.status.provider)


async def _listed(client: Client, workflow_id: str) -> ListedPool | None:
    handle = client.get_workflow_handle(workflow_id)
    try:
        status = await handle.query(STATUS_QUERY, result_type=PoolStatus, rpc_timeout=_PATIENCE)
        return ListedPool(status=status)
    except (RPCError, WorkflowQueryFailedError):
        pass  # no worker: what it was told is in its history
    told = await _told(client, workflow_id)
    if told is None:
        return None
    provider, settings = told
    return ListedPool(status=PoolStatus(provider=provider, settings=settings), served=False)


async def _known_limits(client: Client, provider: str) -> PoolSettings | None:
    """The limits of a running pool."""
    told = await _told(client, pool_workflow_id(provider))
    return told[1] if told else None


async def _told(client: Client, workflow_id: str) -> tuple[str, PoolSettings] | None:
    """Provider and limits, from what the workflow was told; also while nobody executes it."""
    handle = client.get_workflow_handle(workflow_id)
    try:
        description = await handle.describe()
        if description.status is not WorkflowExecutionStatus.RUNNING:
            return None
        history = await handle.fetch_history()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    return await _limits_in(client, history)


async def _limits_in(client: Client, history: WorkflowHistory) -> tuple[str, PoolSettings]:
    converter = client.data_converter
    started = history.events[0].workflow_execution_started_event_attributes
    [argument] = await converter.decode(started.input.payloads, [PoolInput])
    settings: PoolSettings = argument.state.settings
    for event in history.events:
        if event.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
            continue
        signal = event.workflow_execution_signaled_event_attributes
        if signal.signal_name != POOL_LIMITS_SIGNAL:
            continue
        try:
            [change] = await converter.decode(signal.input.payloads, [PoolChange])
        except (ValidationError, ValueError):
            continue  # the pool drops it, too
        settings = PoolSettings(**{**settings.model_dump(), **change.model_dump(exclude_none=True)})
    return argument.provider, settings
