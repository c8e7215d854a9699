"""Wait for attempt workflows that an earlier run of a request workflow started."""

from __future__ import annotations

import asyncio

from temporalio import activity
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import is_cancelled_exception
from temporalio.service import RPCError, RPCStatusCode

from ..contracts.activities import (
    AWAIT_ATTEMPTS,
    AttemptOutcome,
    AwaitAttemptsInput,
    AwaitedAttempt,
    AwaitedAttempts,
)
from .boundary import activity_boundary
from .heartbeat import heartbeating
from .services import Services

POLL_SECONDS = 2.0


class AwaitAttempts:
    """Looks only; running it twice is safe."""

    def __init__(self, services: Services, poll_seconds: float = POLL_SECONDS) -> None:
        self._client: Client = services.client
        self._poll_seconds = poll_seconds

    @activity.defn(name=AWAIT_ATTEMPTS.name)
    @activity_boundary
    async def await_attempts(self, input: AwaitAttemptsInput) -> AwaitedAttempts:
        """Return as soon as at least one of them is over, with all that are."""
        async with heartbeating():
            while True:
                found = await asyncio.gather(*(self._ended(name) for name in input.workflow_ids))
                ended = [item for item in found if item is not None]
                if ended:
                    return AwaitedAttempts(ended=ended)
                # Polling: one long poll for each of many attempts may stay unanswered after an outage.
                await asyncio.sleep(self._poll_seconds)

    async def _ended(self, workflow_id: str) -> AwaitedAttempt | None:
        handle = self._client.get_workflow_handle(workflow_id, result_type=AttemptOutcome)
        try:
            if (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
                return None
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            # Its history was deleted: asking again would not bring it back.
            return AwaitedAttempt(workflow_id=workflow_id, failure="the attempt's workflow is gone")
        try:
            outcome: AttemptOutcome = await handle.result()
        except WorkflowFailureError as error:
            return AwaitedAttempt(
                workflow_id=workflow_id,
                failure=str(error.cause)[:1000],
                cancelled=is_cancelled_exception(error.cause),
            )
        return AwaitedAttempt(workflow_id=workflow_id, outcome=outcome)
