"""A worker process leaves all its queues together."""

from __future__ import annotations

import asyncio
from typing import Any

from agentcompass.worker import _drain


class Leaving:
    """Stands for the worker of one queue; it has left when all have begun to."""

    def __init__(self, barrier: asyncio.Barrier) -> None:
        self._barrier = barrier

    async def shutdown(self) -> None:
        """As the SDK's."""
        await self._barrier.wait()


async def test_no_queue_goes_on_giving_work_while_another_one_is_being_left() -> None:
    barrier = asyncio.Barrier(3)
    workers: list[Any] = [Leaving(barrier) for _ in range(3)]
    async with asyncio.timeout(60):
        await _drain(workers)
