"""Heartbeats: one context manager that every activity that may take long enters."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from temporalio import activity

INTERVAL_SECONDS = 1.0
"""Workers send heartbeats at most once a second (see worker.py), so more often is no use."""


@contextlib.asynccontextmanager
async def heartbeating(details: Callable[[], object] = lambda: None) -> AsyncIterator[None]:
    """Heartbeat once a second with ``details()``; does nothing in a local activity.

    Only an activity that heartbeats learns that it was cancelled.
    """
    if activity.info().is_local:
        yield
        return
    beat = asyncio.create_task(_beat(details))
    try:
        yield
    finally:
        beat.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await beat


async def _beat(details: Callable[[], object]) -> None:
    while True:
        activity.heartbeat(details())
        await asyncio.sleep(INTERVAL_SECONDS)
