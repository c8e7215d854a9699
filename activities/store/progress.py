"""The progress writer: many coroutines emit, one thread writes.

While a batch is being written the next events queue up and go out together (group commit). So
an event waits for at most one write, and a busy worker writes hundreds of events in one go.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import lru_cache
from pathlib import Path

from ...contracts.errors import RecordError
from ...contracts.records import ProgressEvent
from ..redaction import REDACTOR, Redactor
from .progress_log import ProgressLog
from .run_store import open_store

_log = logging.getLogger(__name__)
_IDLE_SECONDS = 5.0
_Batch = list[tuple[Sequence[ProgressEvent], bool, "Future[None]"]]
"""Events, whether the snapshot must be written with them, and who waits."""


class ProgressWriter:
    """Writes the progress of one run from one process. Its thread lives only while there is work."""

    def __init__(
        self, run_dir: Path, redactor: Redactor = REDACTOR, *, on_plans: Callable[[], object] | None = None
    ) -> None:
        """``on_plans`` is called, in the writer's thread, after plans were written."""
        self._run_dir = run_dir
        self._log = ProgressLog(run_dir, redactor)
        self._on_plans = on_plans
        self._wake = threading.Condition()
        self._queue: _Batch = []
        self._thread: threading.Thread | None = None
        self._closing = False

    async def emit(self, events: Sequence[ProgressEvent]) -> None:
        """Return when ``events`` are in ``progress.jsonl``. Events written before are dropped.

        Raises OSError when the file cannot be written; emitting again is safe.
        """
        await asyncio.wrap_future(self._submit(events, flush=False))

    def post(self, events: Sequence[ProgressEvent]) -> Future[None]:
        """:meth:`emit` without waiting: what follows may go on while the disk is busy.

        The future is done when ``events`` are written; nothing that depends on them may be reported
        as finished before. They go out with the next events, after some seconds, or when :meth:`hurry`
        is called: to wake a thread for each costs more than to write them all.
        """
        return self._submit(events, flush=False, wake=False)

    def hurry(self) -> None:
        """Write now what was posted."""
        with self._wake:
            self._wake.notify()

    def emit_blocking(self, events: Sequence[ProgressEvent]) -> None:
        """:meth:`emit` for code without an event loop."""
        self._submit(events, flush=False).result()

    async def flush(self) -> None:
        """Return when ``progress.json`` holds everything that was emitted."""
        await asyncio.wrap_future(self._submit([], flush=True))

    async def close(self) -> None:
        """Flush, and end the thread."""
        await self.flush()
        with self._wake:
            self._closing, thread = True, self._thread
            self._wake.notify()
        if thread is not None:
            await asyncio.to_thread(thread.join)
        with self._wake:
            self._closing = False

    def _submit(self, events: Sequence[ProgressEvent], *, flush: bool, wake: bool = True) -> Future[None]:
        future: Future[None] = Future()
        with self._wake:
            self._queue.append((events, flush, future))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="progress-writer", daemon=True)
                self._thread.start()
            elif wake:
                self._wake.notify()
        return future

    def _work(self) -> None:
        failed = False
        while True:
            with self._wake:
                if not self._queue and not self._closing:
                    self._wake.wait(self._log.due_in() if self._log.stale and not failed else _IDLE_SECONDS)
                batch, self._queue = self._queue, []
                if not batch and (failed or not self._log.stale):
                    self._thread = None
                    return
            failed = not self._write(batch)

    def _write(self, batch: _Batch) -> bool:
        """Write a batch and tell who waits for it; an empty one brings the snapshot up to date."""
        events = [event for item, _, _ in batch for event in item]
        flush = any(flush for _, flush, _ in batch) or not batch
        try:
            self._log.append(events, write_snapshot=flush)
        except Exception as error:
            # Whatever it is, those who wait for the write must learn of it, or they wait for ever.
            _log.warning("progress of %s was not written: %s", self._run_dir, error)
            for _, _, future in batch:
                if future.set_running_or_notify_cancel():
                    future.set_exception(error)
            return False
        for _, _, future in batch:
            if future.set_running_or_notify_cancel():
                future.set_result(None)
        if self._on_plans and any(event.event == "execution_plan_resolved" for event in events):
            try:
                self._on_plans()
            except Exception as error:
                # Whatever it is, this thread must go on, or all who emit wait for ever. The events are
                # written; what is folded from them is folded again at the end of the run.
                bug = not isinstance(error, (OSError, RecordError))
                _log.warning("run_info.json of %s was not refreshed: %s", self._run_dir, error, exc_info=bug)
        return True


@lru_cache(maxsize=256)
def _opened(run_dir: str) -> ProgressWriter:
    return ProgressWriter(Path(run_dir), on_plans=open_store(run_dir).files.refresh_run_info)


def open_progress(run_dir: str | Path) -> ProgressWriter:
    """The process's progress writer of a run directory."""
    return _opened(str(run_dir))
