"""Heartbeats: one context manager that every activity that may take long enters."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from temporalio import activity

INTERVAL_SECONDS = 1.0
"""Workers send heartbeats at most once a second (see worker.py), so more often is no use."""
SELDOM_SECONDS = 5.0
"""For those that only wait, of which there may be hundreds."""


@contextlib.asynccontextmanager
async def heartbeating(
    details: Callable[[], object] = lambda: None, *, seldom: bool = False
) -> AsyncIterator[None]:
    """Heartbeat once a second with ``details()``, or as ``seldom`` as may be; does nothing in a local activity.

    Only an activity that heartbeats learns that it was cancelled.
    """
    if activity.info().is_local:
        yield
        return
    timeout = activity.info().heartbeat_timeout
    interval = INTERVAL_SECONDS
    if seldom and timeout:
        interval = min(timeout.total_seconds() / 4, SELDOM_SECONDS)
    beat = asyncio.create_task(_beat(details, interval))
    try:
        yield
    finally:
        beat.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beat


async def _beat(details: Callable[[], object], interval: float) -> None:
    while True:
        activity.heartbeat(details())
        await asyncio.sleep(interval)
