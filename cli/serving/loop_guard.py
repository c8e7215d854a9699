"""A worker whose event loop a hook does not let turn any more ends itself, so that another one goes on.

Hooks that block belong into a thread (``@blocking``). One that is not declared so stops everything in its worker:
heartbeats, workflow tasks, all other attempts. Nobody can take it out of there but the end of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import functools
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable

from ...activities.hook_calls import RunningHook, hook_running_in
from ...contracts.errors import ConfigurationError

LIMIT_VARIABLE = "AGENTCOMPASS_LOOP_LIMIT_SECONDS"
DEFAULT_LIMIT_SECONDS = 120.0
"""Four times the default heartbeat timeout: what blocks that long is tried again elsewhere anyway."""
EXIT_STALLED = 70
_INTERVAL_SECONDS = 0.5
_PATIENCE_SECONDS = 10.0
"""For writing down what blocks, before the worker ends without."""

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
    """Watch the running event loop from a thread; when a hook has not let it turn for ``seconds``, ``leave``.

    What is no hook (a disk that hangs) would stop the next worker, too: it is told of, and waited for.
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
        self._loop_thread = threading.get_ident()
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
        silent, told = 0.0, False
        self._answered.set()
        while not self._over.wait(_INTERVAL_SECONDS):
            if self._answered.is_set():
                silent, told = 0.0, False
                self._answered.clear()
                self._loop.call_soon_threadsafe(self._answered.set)
                continue
            silent += _INTERVAL_SECONDS
            if silent < self._seconds:
                continue
            hook = hook_running_in(self._loop_thread)
            if hook is None:
                if not told:
                    _with_patience(functools.partial(_tell_stalled, self._seconds))
                told = True
                continue
            _with_patience(functools.partial(_tell_blocking, hook, self._seconds))
            if self._answered.is_set() or self._over.is_set():  # it took until the end of the patience
                continue
            self._leave()
            return


def _with_patience(tell: Callable[[], None]) -> None:
    """Tell it, for some seconds at most: the disk of logs and results may be the very one that hangs."""
    teller = threading.Thread(target=tell, name="loop guard tells", daemon=True)
    teller.start()
    teller.join(_PATIENCE_SECONDS)


def _tell_stalled(seconds: float) -> None:
    _log.error(
        "the event loop has not turned for %g s, and no hook blocks it (a disk that hangs, perhaps). This worker "
        "goes on as soon as it turns again",
        seconds,
    )
    faulthandler.dump_traceback()  # files, lines and names of functions, no values


def _tell_blocking(hook: RunningHook, seconds: float) -> None:
    try:
        hook.blocks()
    except OSError as error:
        _log.warning("it is not noted that %s blocks its worker: %s", hook.name, error)
    _log.error(
        "the event loop has not turned for %g s, %s blocks it; hooks that block are to be declared @blocking. "
        "This worker ends, so that another one goes on, unless it turns again within moments",
        seconds,
        hook.name,
    )
    faulthandler.dump_traceback()


def _leave() -> None:
    os._exit(EXIT_STALLED)
