"""The rate at which environments are opened (``env_open_qps``), for one worker process."""

from __future__ import annotations

import asyncio
import time


class OpenRate:
    """Spaces openings of a provider evenly; callers wait in the order in which they came.

    In embedded mode a launch has one worker process, so this is the rate of the launch. With
    several worker processes each of them keeps to the rate.
    """

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    async def wait(self, provider: str, per_second: float) -> None:
        """Return when ``provider`` may open its next environment; at once without a rate."""
        if per_second <= 0:
            return
        now = time.monotonic()
        turn = max(now, self._next.get(provider, 0.0))
        self._next[provider] = turn + 1 / per_second
        await asyncio.sleep(turn - now)
