"""Blocking work in threads that is never left running behind the back of a cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_settled_thread(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """As ``asyncio.to_thread``; a cancellation is raised only when the thread has done its work.

    For short steps that whoever cleans up after the cancellation must not race with.
    """
    working = asyncio.ensure_future(asyncio.to_thread(function, *arguments, **named))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise
