"""Following a launch to its end: progress, a worker that is kept alive, Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError, WorkflowHandle
from temporalio.service import RPCError

from ..activities.data_converter import data_converter
from ..contracts.errors import AgentCompassError, ServiceUnreachableError, UsageError
from ..contracts.launch import OVER_STATES, LaunchResult, LaunchStatus
from .connection import is_outage, revived
from .display import Display
from .launch_handle import LaunchHandle, call, request_cancel
from .launch_status import read_snapshot, read_status, status_of_result
from .left_behind import LeftBehind
from .reuse_note import ReuseNotes
from .shared_queue import with_worker
from .troubles import TroubleWatch

LaunchWorkflowHandle = WorkflowHandle[object, LaunchResult]
T = TypeVar("T")

FIRST_POLL_SECONDS = 0.2
LAST_POLL_SECONDS = 1.0
WORKER_LOOK_SECONDS = 0.25
"""How often the worker is looked at while it is asked something."""
SHARED_LOOK_SECONDS = 15.0
"""How often it is looked whether anybody serves a scheduled launch."""
_MANY_DEATHS = 4


class Follower:
    """Polls, because a long poll may stay unanswered after an outage of the server."""

    def __init__(self, handle: LaunchHandle, display: Display) -> None:
        self._handle = handle
        self._display = display
        self._wake = asyncio.Event()
        self._interrupts = 0
        self._worker_starts = 0
        self._run_dir = ""
        self._watch = TroubleWatch()
        self._reuse = ReuseNotes()
        self._shared_look = 0.0

    async def run(self) -> LaunchResult:
        """The launch's result.

        Raises ``UsageError`` or ``ServiceUnreachableError`` when the launch was refused, and
        ``KeyboardInterrupt`` at the second Ctrl-C.
        """
        with self._interrupt_handler():
            try:
                await self._until_over()
                return await self._result()
            except asyncio.CancelledError:
                if self._interrupts > 1:
                    raise KeyboardInterrupt from None
                raise

    async def _until_over(self) -> None:
        pause = FIRST_POLL_SECONDS
        while True:
            if self._interrupts > 1:
                raise KeyboardInterrupt  # a cancellation gets lost where it meets the end of a wait
            description = await self._ask(lambda workflow: workflow.describe())
            if description.status is not WorkflowExecutionStatus.RUNNING:
                return
            if self._handle.ensure_worker():
                self._display.message(_started_again(self._handle))
            await self._serve_if_nobody_does()
            await self._show()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            self._wake.clear()
            pause = min(pause * 1.5, LAST_POLL_SECONDS)

    async def _serve_if_nobody_does(self) -> None:
        """A scheduled launch is served by a worker that somebody keeps running, or by one of its own when that is gone."""
        if self._handle.worker is not None or time.monotonic() < self._shared_look:
            return
        self._shared_look = time.monotonic() + SHARED_LOOK_SECONDS
        self._handle = await call(lambda: with_worker(self._handle))
        if self._handle.ensure_worker():
            self._display.message(
                f"No worker serves the task queue {self._handle.task_queue!r}; started one for this launch."
            )

    async def _ask(self, question: Callable[[LaunchWorkflowHandle], Awaitable[T]]) -> T:
        """Ask the server, and go on asking while it is away; one of our own is started again."""

        async def once() -> T:
            await self._revive()
            return await question(self._handle.workflow)

        return await call(once)

    async def _revive(self) -> None:
        fresh = await revived(self._handle.connection, data_converter=data_converter())
        if fresh is not None:
            self._handle = replace(self._handle, connection=fresh)
            self._display.message("The Temporal server was gone; started it again, and the launch goes on.")

    async def _show(self) -> None:
        try:
            status = await self._read_status()
            if status is None:
                return
            found = await self._watch.look(self._handle, status)
        except RPCError as error:
            if is_outage(error):
                return  # the next poll brings the server back
            raise
        begun = [item for item in found.requests if item.run_dir]
        current = next(
            (item for item in begun if item.state not in OVER_STATES), begun[-1] if begun else None
        )
        self._run_dir = current.run_dir if current else self._run_dir
        for note in await self._reuse.fresh(found.requests):
            self._display.message(note)
        snapshot = await asyncio.to_thread(read_snapshot, self._run_dir)
        self._display.update(found, snapshot)

    async def _read_status(self) -> LaunchStatus | None:
        """The launch's state; ``None`` as soon as it is over, or its own worker is found dead.

        A question that nobody answers takes seconds to give up, in which there would be no other worker; a worker that
        leaves after a refused launch answers none.
        """
        asking = asyncio.create_task(read_status(self._handle))
        worker = self._handle.worker
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=WORKER_LOOK_SECONDS)
                if asking.done():
                    break
                if worker is not None and not worker.running():
                    return None
                if (await self._handle.workflow.describe()).status is not WorkflowExecutionStatus.RUNNING:
                    return None
            return asking.result()
        finally:
            asking.cancel()

    async def _result(self) -> LaunchResult:
        try:
            result = await self._ask(lambda workflow: workflow.result())
        except WorkflowFailureError as error:
            # Ended from outside: what it left needs its worker, which forgets by itself.
            left = LeftBehind(self._handle.connection)
            await call(lambda: left.serve(only=self._handle.launch_id))
            raise AgentCompassError(
                f"launch {self._handle.launch_id} ended without a result: {error.cause}"
            ) from error
        if self._handle.worker is not None:
            self._handle.worker.forget()
        raise_refusal(result)
        for note in await self._reuse.fresh(result.requests):
            self._display.message(note)
        run_dir = next((item.run_dir for item in result.requests if item.run_dir), "")
        self._display.update(status_of_result(result), await asyncio.to_thread(read_snapshot, run_dir))
        return result

    @contextlib.contextmanager
    def _interrupt_handler(self) -> Iterator[None]:
        """First Ctrl-C: ask the launch to cancel. Second: leave at once; the launch goes on ending."""
        loop = asyncio.get_running_loop()
        following = asyncio.current_task()
        tasks: set[asyncio.Task[None]] = set()

        def interrupted() -> None:
            self._interrupts += 1
            if self._interrupts == 1:
                self._wake.set()
                tasks.add(loop.create_task(self._cancel()))
            elif following is not None:
                following.cancel()  # at once, also in the middle of a call to a server that is away

        try:
            loop.add_signal_handler(signal.SIGINT, interrupted)
        except (ValueError, NotImplementedError, RuntimeError):
            yield  # not in the main thread, as in a notebook: the caller's handling applies
            return
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _cancel(self) -> None:
        self._display.message(
            "Cancelling: running attempts are stopped and their environments closed. "
            "Ctrl-C again leaves at once."
        )
        await request_cancel(self._handle, "interrupted")


def _started_again(handle: LaunchHandle) -> str:
    deaths = handle.worker.deaths if handle.worker else 0
    text = "The worker was gone; started another one, which goes on."
    if deaths < _MANY_DEATHS or handle.worker is None:
        return text
    return f"{text} It was the {deaths}th time in some minutes: a task may kill it, or memory is short; see {handle.worker.log_path}"


def raise_refusal(result: LaunchResult) -> None:
    """Raise what refused the launch before any run directory was made."""
    if not result.refused:
        return
    if result.exit_code == UsageError.exit_code:
        raise UsageError(result.error)
    if result.exit_code == ServiceUnreachableError.exit_code:
        raise ServiceUnreachableError(result.error)
