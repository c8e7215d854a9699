"""Calling hooks of extensions, and what they may raise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ..contracts.component import is_blocking

T = TypeVar("T")

HOOK_FAILURES = (Exception, SystemExit, asyncio.CancelledError)
"""What a hook may raise: anything. Also ``sys.exit``, which must not end the worker."""


def raise_if_cancelled(error: BaseException) -> None:
    """Raise a cancellation of this very task again; a stray one, of something a hook awaited, is a failure."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error


async def call_hook(hook: Callable[..., Coroutine[Any, Any, T]], *arguments: Any) -> T:
    """Call a hook; one declared ``@blocking`` runs in a thread with an event loop of its own."""
    if not is_blocking(hook):
        return await hook(*arguments)
    return await asyncio.to_thread(lambda: asyncio.run(hook(*arguments)))
