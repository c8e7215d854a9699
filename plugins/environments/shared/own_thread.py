"""Blocking work beside the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def in_own_thread(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Run ``work`` in a thread of its own: in a shared pool, long commands would keep their ending out."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(action: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            action(value)

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # handed to whoever waits
            action, value = future.set_exception, error
        else:
            action, value = future.set_result, result  # type: ignore[assignment]
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, action, value)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
