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
    from ..contracts.workflows import ReadyAttempt, RequestState, Requeue, RunningAttempt
    from .calls import bookkeeping

_PAGE = 500
"""Attempts read at once: some 30 kB of payload, and as much in what continue-as-new carries over."""


class TaskQueue:
    """Attempts that are ready to start; tasks are listed in the run store, never in a workflow's input."""

    def __init__(self, spec: AttemptsSpec, state: RequestState) -> None:
        self.ready: deque[ReadyAttempt] = deque(state.ready)
        self.next_offset = state.next_offset
        self.again: deque[Requeue] = deque(state.again)
        self._spec = spec
        self._run_dir = state.run_dir
        self._parallel = state.parallel_attempts

    @property
    def unread(self) -> bool:
        """True when there may be attempts that were not read yet."""
        return self.next_offset is not None or bool(self.again)

    @property
    def exhausted(self) -> bool:
        """True when every attempt was handed out that is known of."""
        return not self.ready and not self.unread

    async def read_page(self) -> int:
        """Read on, failed tasks that are wanted again before those that were never begun.

        Returns how many finished tasks are to be executed again. Raises ``FailureError`` when nothing can be read at all.
        """
        if self.again:
            return await self._read_failed(self.again[0])
        if self.next_offset is None:
            return 0
        page = await bookkeeping(
            PENDING_TASKS,
            # A task brings its attempts along, those that are finished and those that are to come.
            PendingTasksInput(run_dir=self._run_dir, offset=self.next_offset, limit=self._page),
            summary="next tasks",
        )
        for task in page.tasks:
            self._add(task)
        self.next_offset = page.next_offset
        return 0

    def requeue_failed(self, generation: int) -> None:
        """Have the tasks executed again that failed until now."""
        self.again.append(Requeue(generation=generation, before=self.next_offset))

    async def _read_failed(self, wanted: Requeue) -> int:
        page = await bookkeeping(
            REQUEUE_FAILED,
            RequeueFailedInput(
                run_dir=self._run_dir,
                generation=wanted.generation,
                offset=wanted.offset,
                before=wanted.before,
                limit=self._page,
            ),
            summary="failed tasks again",
        )
        for task in page.tasks:
            self._add(task)
        self.again.popleft()
        if page.next_offset is not None:
            self.again.appendleft(wanted.model_copy(update={"offset": page.next_offset}))
        return len(page.tasks)

    @property
    def _page(self) -> int:
        return max(1, _PAGE // self._spec.k)

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
