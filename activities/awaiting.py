"""Waiting for workflows that an earlier run of their parent started, and of which nobody else tells how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.service import RPCError, RPCStatusCode

from .heartbeat import heartbeating

ResultT = TypeVar("ResultT", bound=BaseModel)

POLL_SECONDS = 2.0


@dataclass(frozen=True)
class Ended(Generic[ResultT]):
    """A workflow that is over."""

    workflow_id: str
    result: ResultT | None = None
    cause: BaseException | None = None
    """Why there is no result; ``None`` beside no result: its history was deleted."""


async def some_that_ended(
    client: Client, workflow_ids: Sequence[str], result_type: type[ResultT], poll_seconds: float
) -> list[Ended[ResultT]]:
    """Return as soon as at least one of them is over, with all that are; heartbeats meanwhile."""
    async with heartbeating():
        while True:
            found = await asyncio.gather(*(_look(client, name, result_type) for name in workflow_ids))
            ended = [item for item in found if item is not None]
            if ended:
                return ended
            # Polling: one long poll for each of many workflows may stay unanswered after an outage.
            await asyncio.sleep(poll_seconds)


async def _look(client: Client, workflow_id: str, result_type: type[ResultT]) -> Ended[ResultT] | None:
    handle = client.get_workflow_handle(workflow_id, result_type=result_type)
    try:
        if (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            return None
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return Ended(workflow_id)  # asking again would not bring it back
    try:
        result: ResultT = await handle.result()
    except WorkflowFailureError as error:
        return Ended(workflow_id, cause=error.cause)
    return Ended(workflow_id, result)
