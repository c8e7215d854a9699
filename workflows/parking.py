"""How an attempt gives its slot back to its request, and gets one again."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from ..contracts.workflows import PARKED_SIGNAL, READY_SIGNAL, ParkedAttempt, ParkReason

_ASK_AGAIN = timedelta(minutes=15)
"""How often an attempt that waits for a slot looks whether its request is still there."""
_MESSAGE_LIMIT = 500


class Parking:
    """One attempt's side of the conversation; ``go`` is what the request answers."""

    def __init__(self) -> None:
        self._go = False

    def go(self) -> None:
        """There is a slot again."""
        self._go = True

    async def wait_for_resume(self, message: str, code: str) -> bool:
        """Wait until the request is resumed. False when there is no request that could be.

        ``code`` is that of the issue, which says who refuses.
        """
        return await self._give_back(ParkReason.BLOCKED, message, code) and await self._wait()

    async def back_off(self, delay: float, label: str) -> None:
        """Wait ``delay`` seconds without a slot, then for a slot; without a request just wait."""
        parked = await self._give_back(ParkReason.BACKOFF, label)
        if delay > 0:
            await workflow.sleep(timedelta(seconds=delay), summary=f"back-off before {label}")
        if parked and await self._tell(READY_SIGNAL, workflow.info().workflow_id):
            await self._wait()

    async def _give_back(self, reason: ParkReason, message: str, code: str = "") -> bool:
        self._go = False
        parked = ParkedAttempt(
            workflow_id=workflow.info().workflow_id,
            reason=reason,
            message=message[:_MESSAGE_LIMIT],
            code=code,
        )
        return await self._tell(PARKED_SIGNAL, parked)

    async def _wait(self) -> bool:
        """Wait for the request's word and ask again now and then. False when the request is gone."""
        while True:
            try:
                await workflow.wait_condition(lambda: self._go, timeout=_ASK_AGAIN)
                return True
            except TimeoutError:
                if not await self._tell(READY_SIGNAL, workflow.info().workflow_id):
                    return False

    async def _tell(self, signal: str, argument: ParkedAttempt | str) -> bool:
        """False when there is nobody to tell: an attempt that was abandoned finishes what it has."""
        parent = workflow.info().parent
        if parent is None:
            return False
        try:
            await workflow.get_external_workflow_handle(parent.workflow_id).signal(signal, argument)
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            return False
        if workflow.cancellation_reason() is not None:
            # A signal that got through all the same would swallow the cancellation.
            raise asyncio.CancelledError
        return True
