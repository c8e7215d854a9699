"""Analyzers look at finished tasks in the background of a request; nothing waits for them but its end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from ..contracts.activities import ANALYZE_TASKS, AnalyzeTasksInput
    from .calls import HOOK, bookkeeping, root_cause

_BATCH = 100
_WORTH_IT = 25
"""Finished tasks that make an activity worth its events while there is other work to do."""
_PATIENCE = timedelta(minutes=10)
"""How long a request whose tasks are through waits for its analysis."""


class Analysis:
    """The finished tasks that no analyzer has looked at, a batch of them at a time."""

    def __init__(self, run_dir: str, waiting: Iterable[int], heartbeat_timeout: timedelta) -> None:
        self._run_dir = run_dir
        self._waiting = deque(waiting)
        self._batch: list[int] = []
        self._heartbeat_timeout = heartbeat_timeout
        self._task: asyncio.Task[None] | None = None

    @property
    def unanalyzed(self) -> list[int]:
        """What the next run of the request has to do; a batch in flight is repeated there."""
        return [*self._batch, *self._waiting]

    def add(self, task_index: int) -> None:
        """A task is finished. Starts a batch when enough have come together."""
        self._waiting.append(task_index)
        if len(self._waiting) >= _WORTH_IT:
            self._start()

    async def finish(self, stopped: Callable[[], bool]) -> None:
        """Look at all that is left; gives up after :data:`_PATIENCE`, or when the request is stopped."""
        if self.unanalyzed and not stopped():
            rest = asyncio.create_task(self._all())
            try:
                await workflow.wait_condition(
                    lambda: rest.done() or stopped(), timeout=_PATIENCE, timeout_summary="end of the analysis"
                )
            except TimeoutError:
                count = len(self.unanalyzed)
                workflow.logger.warning("%s tasks are left to `agentcompass analysis`", count)
            rest.cancel()
        if self._task is not None:
            self._task.cancel()

    async def _all(self) -> None:
        while self._waiting or self._task is not None:
            self._start()
            await workflow.wait_condition(lambda: self._task is None)

    def _start(self) -> None:
        if self._task is None and self._waiting:
            self._batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
            self._task = asyncio.create_task(self._analyze())

    async def _analyze(self) -> None:
        try:
            await bookkeeping(
                ANALYZE_TASKS,
                AnalyzeTasksInput(run_dir=self._run_dir, task_indexes=self._batch),
                heartbeat_timeout=self._heartbeat_timeout,
                policy=HOOK,
                summary=f"analyze {len(self._batch)} tasks",
            )
            self._batch = []
        except FailureError as error:
            # Analysis is optional: it changes no score and ends no request.
            if not is_cancelled_exception(error):
                workflow.logger.warning("tasks were not analyzed: %s", root_cause(error))
                self._batch = []
        finally:
            self._task = None
