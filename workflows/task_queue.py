"""Which attempts of a request come next: the task list page by page, and the next attempts of a task."""

from __future__ import annotations

from collections import deque

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from ..contracts.activities import (
        PENDING_TASKS,
        REQUEUE_FAILED,
        AttemptOutcome,
        FinishedAttempt,
        PendingTask,
        PendingTasksInput,
        RequeueFailedInput,
    )
    from ..contracts.request import AttemptsSpec
    from ..contracts.scheduling import attempts_remaining
    from ..contracts.workflows import ReadyAttempt, RequestState, RunningAttempt
    from .calls import bookkeeping

_PAGE = 500
"""Attempts read at once: some 30 kB of payload, and as much in what continue-as-new carries over."""


class TaskQueue:
    """Attempts that are ready to start; tasks are listed in the run store, never in a workflow's input."""

    def __init__(self, spec: AttemptsSpec, state: RequestState) -> None:
        self.ready: deque[ReadyAttempt] = deque(state.ready)
        self.next_offset = state.next_offset
        self._spec = spec
        self._run_dir = state.run_dir
        self._parallel = state.parallel_attempts

    @property
    def exhausted(self) -> bool:
        """True when every attempt was handed out that is known of."""
        return not self.ready and self.next_offset is None

    async def read_page(self) -> None:
        """Read on in the task list. Raises ``FailureError`` when it cannot be read at all."""
        if self.next_offset is None:
            return
        page = await bookkeeping(
            PENDING_TASKS,
            # A task brings its attempts along, those that are finished and those that are to come.
            PendingTasksInput(
                run_dir=self._run_dir, offset=self.next_offset, limit=max(1, _PAGE // self._spec.k)
            ),
            summary="next tasks",
        )
        for task in page.tasks:
            self._add(task)
        self.next_offset = page.next_offset

    async def requeue_failed(self, generation: int) -> int:
        """Have the failed tasks executed again; returns how many there are. Raises ``FailureError``."""
        offset: int | None = 0
        found = 0
        while offset is not None:
            page = await bookkeeping(
                REQUEUE_FAILED,
                RequeueFailedInput(
                    run_dir=self._run_dir,
                    generation=generation,
                    offset=offset,
                    before=self.next_offset,
                    limit=max(1, _PAGE // self._spec.k),
                ),
                summary="failed tasks again",
            )
            for task in page.tasks:
                self._add(task)
            found, offset = found + len(page.tasks), page.next_offset
        return found

    def _add(self, task: PendingTask) -> None:
        remaining = attempts_remaining(self._spec, task.finished_attempts)
        if not self._parallel:
            remaining = remaining[:1]
        self.ready.extend(ReadyAttempt(task=task, attempt=attempt) for attempt in remaining)

    def put_next(self, running: RunningAttempt, outcome: AttemptOutcome) -> None:
        """After one attempt of a task, the next one: it goes first, so that tasks get finished."""
        if self._parallel:
            return
        finished = FinishedAttempt(attempt=running.attempt, success=outcome.success, fatal=outcome.fatal)
        task = running.task.model_copy(
            update={"finished_attempts": [*running.task.finished_attempts, finished]}
        )
        remaining = attempts_remaining(self._spec, task.finished_attempts)
        if remaining:
            self.ready.appendleft(ReadyAttempt(task=task, attempt=remaining[0]))
