"""Synchronous hooks of extensions, in threads that can be left behind: one that blocks must not stop its worker."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from .hook_calls import ABANDONED, require_room

T = TypeVar("T")

SYNC_HOOK_SECONDS = 60.0
"""What a synchronous hook gets, and the planning of an attempt as a whole: they take no more than moments."""


class LeftBehindError(Exception):
    """A synchronous hook did not end; its thread was left to itself, and what it returns is ignored."""


async def in_own_thread(
    function: Callable[[], T],
    name: str,
    *,
    seconds: float | None = None,
    context: contextvars.Context | None = None,
) -> T:
    """What ``function`` returns, from a thread of its own, for ``seconds`` at most (:data:`SYNC_HOOK_SECONDS`).

    ``context`` is what it runs in, by default a copy of the caller's. Whatever it raises is raised here; so is
    :class:`LeftBehindError` that names ``name``, and ``ApplicationError`` (``hooks_do_not_end``) when this process
    has left too many threads behind. A cancellation leaves the thread behind at once.
    """
    require_room()
    limit = SYNC_HOOK_SECONDS if seconds is None else seconds
    call = _Call(function, contextvars.copy_context() if context is None else context)
    thread = threading.Thread(target=call.run, name=f"hook {name}", daemon=True)
    thread.start()
    try:
        await asyncio.wait([call.done], timeout=limit)
    finally:
        if not call.done.done():
            ABANDONED.add(thread)
    if not call.done.done():
        raise LeftBehindError(f"{name} did not end within {limit:g} s")
    return call.outcome()


class _Call(Generic[T]):
    """A function on its way in a thread."""

    def __init__(self, function: Callable[[], T], context: contextvars.Context) -> None:
        self._function = function
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._value: T
        self._error: BaseException | None = None
        self.done: asyncio.Future[None] = self._loop.create_future()

    def run(self) -> None:
        try:
            self._value = self._context.run(self._function)
        except BaseException as error:  # the end of the thread: whoever called must hear of it
            self._error = error
        try:
            self._loop.call_soon_threadsafe(self._tell)
        except RuntimeError:
            return  # the worker has ended meanwhile

    def outcome(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value

    def _tell(self) -> None:
        if not self.done.done():
            self.done.set_result(None)
