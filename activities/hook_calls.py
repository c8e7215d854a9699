"""Calling hooks of extensions, so that one which does not end cannot hold up its attempt.

A hook runs in a task of its own, one declared ``@blocking`` in a thread with an event loop of its own.
When it is to end (its budget, a cancellation, an operator) it is cancelled and gets some seconds; one
that goes on all the same is abandoned: nobody waits for it, what it returns is ignored, and whoever
called it is told. Python offers no way to kill a thread; its worker takes it along when it ends.
"""

from __future__ import annotations

import abc
import asyncio
import contextvars
import logging
import os
import platform
import sys
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from temporalio.exceptions import ApplicationError

from ..contracts.component import is_blocking

T = TypeVar("T")
Hook = Callable[..., Coroutine[Any, Any, T]]

HOOK_FAILURES = (Exception, SystemExit, asyncio.CancelledError)
"""What a hook may raise: anything. Also ``sys.exit``, which must not end the worker."""

MOST_ABANDONED = 32
"""Abandoned threads of a process at once. With so many it starts no further hook in a thread: another worker
may take the phase, and what this one has left to itself grows no further."""

PATIENCE_SECONDS = 10.0
"""What a cancelled hook gets to end in order: to end what it started in a slow sandbox, say."""

_log = logging.getLogger(__name__)


class _Abandoned:
    """The threads that were left to themselves and have not ended. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()

    def add(self, thread: threading.Thread) -> None:
        with self._lock:
            self._threads.add(thread)

    def count(self) -> int:
        with self._lock:
            self._threads = {thread for thread in self._threads if thread.is_alive()}
            return len(self._threads)


ABANDONED = _Abandoned()
"""Of this process."""


def abandoned_hooks() -> int:
    """How many hooks of this process were left to themselves in threads, and have not ended since."""
    return ABANDONED.count()


def raise_if_cancelled(error: BaseException) -> None:
    """Raise a cancellation of this very task again; a stray one, of something a hook awaited, is a failure."""
    task = asyncio.current_task()
    if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
        raise error


def require_room() -> None:
    """Raise ``ApplicationError`` (``hooks_do_not_end``) when so many threads were abandoned that none is started."""
    count = ABANDONED.count()
    if count >= MOST_ABANDONED:
        raise ApplicationError(
            f"{count} hooks of worker process {os.getpid()} on {platform.node()} were cancelled and do not end; "
            "it starts no other one in a thread until they do, or until it is started again",
            type="hooks_do_not_end",
        )


def _log_abandoned(name: str) -> None:
    _log.warning("%s does not end although it was cancelled; it is left to itself", name)


def _nobody() -> None:
    pass


@dataclass(frozen=True)
class RunningHook:
    """A hook that was called in an event loop."""

    name: str
    blocks: Callable[[], None]
    """Tells whoever called it that it blocks that loop. May itself block: it writes to a disk."""


_RUNNING: contextvars.ContextVar[RunningHook] = contextvars.ContextVar("running_hook")
"""What a hook starts (``gather``, a ``TaskGroup``, callbacks) runs in a copy of its context, and belongs to it."""


def hook_running_in(loop_thread: int) -> RunningHook | None:
    """The hook that the event loop of a thread (``threading.get_ident``) is in right now, asked from another thread.

    ``None`` when what runs there belongs to no hook.
    """
    frame = sys._current_frames().get(loop_thread)
    found = None
    while frame is not None:
        # Each step of a task and each callback is run by a handle, in the context it was made in. Tasks themselves
        # tell theirs from Python 3.12 on only, and callbacks have none.
        if frame.f_code is asyncio.Handle._run.__code__:
            handle = frame.f_locals.get("self")  # it forgets itself at its end
            found = None if handle is None else handle._context.get(_RUNNING)
            break
        frame = frame.f_back
    return found


async def call_hook(
    hook: Hook[T],
    *arguments: Any,
    abandoned: Callable[[str], None] = _log_abandoned,
    blocks: Callable[[], None] = _nobody,
    patience: float | None = None,
) -> T:
    """Call a hook. ``abandoned`` hears the name of one that was cancelled and does not end, ``blocks`` is called
    from another thread before the worker ends because the hook blocks its event loop.

    Raises ``ApplicationError`` (``hooks_do_not_end``, to be tried again elsewhere or later) when so many threads
    of this process were abandoned that it starts no other one.
    """
    # The hook's exit must come out here: raised through a task, it would end the event loop.
    call: _Call[T] = _ThreadCall(hook, arguments) if is_blocking(hook) else _TaskCall(hook, arguments, blocks)
    done = call.start()
    try:
        await asyncio.wait([done])
    except asyncio.CancelledError:
        call.cancel()
        try:
            await asyncio.wait([done], timeout=PATIENCE_SECONDS if patience is None else patience)
        finally:
            if not done.done():
                call.abandon()
                abandoned(getattr(hook, "__name__", "a hook"))
        raise
    return call.outcome()


class _Call(abc.ABC, Generic[T]):
    """A hook on its way; what it returned or raised is there when its future is done."""

    def __init__(self, hook: Hook[T], arguments: tuple[Any, ...]) -> None:
        self._hook = hook
        self._arguments = arguments
        self._value: T
        self._error: BaseException | None = None

    @abc.abstractmethod
    def start(self) -> asyncio.Future[None]:
        """Begin; the future is done when the hook has ended."""

    @abc.abstractmethod
    def cancel(self) -> None:
        """Ask the hook to end."""

    def abandon(self) -> None:
        """Nobody waits for it any more."""

    def outcome(self) -> T:
        """What the hook returned. Raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._value

    async def _run(self) -> None:
        try:
            self._value = await self._hook(*self._arguments)
        except HOOK_FAILURES as error:  # raised again where the hook was called
            self._error = error


class _TaskCall(_Call[T]):
    """In this event loop."""

    def __init__(self, hook: Hook[T], arguments: tuple[Any, ...], blocks: Callable[[], None]) -> None:
        super().__init__(hook, arguments)
        self._blocks = blocks

    def start(self) -> asyncio.Future[None]:
        context = contextvars.copy_context()
        context.run(_RUNNING.set, RunningHook(getattr(self._hook, "__name__", "a hook"), self._blocks))
        self._task = asyncio.create_task(self._run(), context=context)
        return self._task

    def cancel(self) -> None:
        self._task.cancel()


class _ThreadCall(_Call[T]):
    """In a thread of its own and not in one of the pool, whose threads everything else needs."""

    def start(self) -> asyncio.Future[None]:
        self._caller = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self._caller.create_future()
        self._inner: tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]] | None = None
        require_room()
        context = contextvars.copy_context()
        name = f"hook {getattr(self._hook, '__name__', '')}"
        # A daemon: neither draining nor the end of the process waits for it.
        self._thread = threading.Thread(target=context.run, args=(self._in_thread,), name=name, daemon=True)
        self._thread.start()
        return self._done

    def abandon(self) -> None:
        ABANDONED.add(self._thread)
        _log.warning("%d hooks of this worker do not end", ABANDONED.count())

    def cancel(self) -> None:
        """Cancels what the hook awaits, if it awaits anything."""
        if self._inner is None:
            return
        loop, task = self._inner
        try:
            loop.call_soon_threadsafe(task.cancel)
        except RuntimeError:
            return  # its loop is closed: it has just ended

    def _in_thread(self) -> None:
        async def main() -> None:
            task = asyncio.current_task()
            assert task is not None
            self._inner = asyncio.get_running_loop(), task
            await self._run()

        try:
            asyncio.run(main())
        except BaseException as error:  # the end of the thread: whoever called must hear of it
            self._error = self._error or error
        try:
            self._caller.call_soon_threadsafe(self._tell)
        except RuntimeError:
            return  # the worker has ended meanwhile

    def _tell(self) -> None:
        if not self._done.done():
            self._done.set_result(None)
