"""A worker whose event loop does not turn any more ends itself, so that another one goes on.

Hooks that block belong into a thread (``@blocking``). One that is not declared so stops everything in its worker:
heartbeats, workflow tasks, all other attempts. Nobody can take it out of there but the end of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable

from ...activities.hook_calls import note_blocking_hook
from ...contracts.errors import ConfigurationError

LIMIT_VARIABLE = "AGENTCOMPASS_LOOP_LIMIT_SECONDS"
DEFAULT_LIMIT_SECONDS = 120.0
"""Four times the default heartbeat timeout: what blocks that long is tried again elsewhere anyway."""
EXIT_STALLED = 70
_INTERVAL_SECONDS = 0.5

_log = logging.getLogger("agentcompass.worker")


def loop_limit(value: str | None) -> float:
    """Seconds from the variable's text; 0 for never. Raises ``ConfigurationError``."""
    if not value:
        return DEFAULT_LIMIT_SECONDS
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ConfigurationError(f"{LIMIT_VARIABLE}: {value!r} is not a number of seconds; 0 turns it off")
    return seconds


@contextlib.asynccontextmanager
async def guarded_loop(seconds: float, leave: Callable[[], None] | None = None) -> AsyncIterator[None]:
    """Watch the running event loop from a thread; when it has not turned for ``seconds``, ``leave``.

    Only time in which the thread itself ran counts, so that a stopped or suspended process is not ended.
    """
    if seconds <= 0:
        yield
        return
    guard = _Guard(asyncio.get_running_loop(), seconds, leave or _leave)
    guard.start()
    try:
        yield
    finally:
        guard.stop()


class _Guard:
    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, leave: Callable[[], None]) -> None:
        self._loop = loop
        self._seconds = seconds
        self._leave = leave
        self._answered = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="loop guard", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        silent = 0.0
        self._answered.set()
        while not self._over.wait(_INTERVAL_SECONDS):
            if self._answered.is_set():
                silent = 0.0
                self._answered.clear()
                self._loop.call_soon_threadsafe(self._answered.set)
                continue
            silent += _INTERVAL_SECONDS
            if silent >= self._seconds:
                name = note_blocking_hook(self._loop)
                _log.error(
                    "the event loop has not turned for %g s, %s blocks it; hooks that block are to be declared "
                    "@blocking. This worker ends, so that another one goes on",
                    self._seconds,
                    name or "something",
                )
                self._leave()
                return


def _leave() -> None:
    faulthandler.dump_traceback()  # files, lines and names of functions, no values
    os._exit(EXIT_STALLED)
