"""The floor: what Temporal alone costs when every attempt is a child workflow that does nothing."""

from __future__ import annotations

import asyncio

from temporalio import workflow


@workflow.defn
class EmptyAttempt:
    """Ends at once."""

    @workflow.run
    async def run(self, number: int) -> int:
        """Returns its number, as an attempt returns its outcome."""
        return number


@workflow.defn
class FloorParent:
    """Keeps a window of empty attempts running, as the request workflow does."""

    @workflow.run
    async def run(self, attempts: int, window: int) -> int:
        """Returns how many ended."""
        slots = asyncio.Semaphore(window)
        prefix = workflow.info().workflow_id

        async def attempt(number: int) -> None:
            async with slots:
                await workflow.execute_child_workflow(EmptyAttempt.run, number, id=f"{prefix}/{number}")

        await asyncio.gather(*(attempt(number) for number in range(attempts)))
        return attempts
