"""The attempts of a request that are in flight: start them, learn how they end, cancel them.

Attempts are children that outlive a run of the request workflow: they are ABANDONed, because
continue-as-new would end them otherwise. So cancelling is explicit, and a run learns of those that
an earlier run started through the ``await_attempts`` activity.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import (
    ChildWorkflowError,
    FailureError,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from ..contracts.activities import (
        AWAIT_ATTEMPTS,
        SAVE_ATTEMPT,
        AttemptOutcome,
        AttemptRef,
        AwaitAttemptsInput,
        AwaitedAttempts,
        ExecutionRef,
        SaveAttemptInput,
    )
    from ..contracts.issues import Issue, IssueCode, IssuePhase, Severity
    from ..contracts.result import TaskStatus
    from ..contracts.workflows import (
        ATTEMPT_WORKFLOW,
        GO_SIGNAL,
        AttemptInput,
        ReadyAttempt,
        RequestInput,
        RequestState,
        RunningAttempt,
        attempt_workflow_id,
    )
    from .attributes import request_attributes
    from .calls import BOOKKEEPING, LONGEST_PHASE, bookkeeping, in_background, root_cause
    from .slots import Slots


class AttemptWindow:
    """Every attempt that was started comes out of :attr:`ended` exactly once."""

    def __init__(
        self, input: RequestInput, state: RequestState, slots: Slots, stopping: Callable[[], bool]
    ) -> None:
        self.slots = slots
        self.ended: deque[tuple[RunningAttempt, AttemptOutcome]] = deque()
        self.started = 0
        """Attempts that this run started."""
        self.failure: BaseException | None = None
        """A bug of ours, or a start that the server refuses: the request cannot go on."""
        self._input = input
        self._run_dir = state.run_dir
        self._run_id = state.run_id
        self._stopping = stopping
        self._drivers: dict[str, asyncio.Task[None]] = {}
        """Of the attempts that this run is the parent of; all others are inherited."""
        self._starting: set[str] = set()
        self._cancelled: set[str] = set()
        self._messages: set[asyncio.Task[None]] = set()
        self._adoptions: set[asyncio.Task[None]] = set()
        if state.running:
            self._spawn(self._adopt(state.running), self._adoptions)

    @property
    def settled(self) -> bool:
        """True when no start, signal or cancellation is in doubt: what continue-as-new waits for."""
        return not self._starting and not self._messages

    @property
    def uncancelled(self) -> bool:
        """True when an attempt in flight was not yet asked to stop."""
        return any(workflow_id not in self._cancelled for workflow_id in self.slots.running)

    def start(self, item: ReadyAttempt) -> None:
        """Start an attempt in a slot; all starts of a round go out in one workflow task."""
        running = self._running(item)
        self.started += 1
        self.slots.start(running)
        self._starting.add(running.workflow_id)
        self._drivers[running.workflow_id] = in_background(self._drive(running))

    def _running(self, item: ReadyAttempt) -> RunningAttempt:
        request_id = workflow.info().workflow_id
        return RunningAttempt(
            workflow_id=attempt_workflow_id(
                request_id, item.task.task_id, item.attempt, item.task.generation
            ),
            task=item.task,
            attempt=item.attempt,
        )

    def let_go_on(self) -> None:
        """Give a slot to the parked attempt that waits longest."""
        self._spawn(self._tell_to_go(self.slots.grant()), self._messages)

    def take_ended(self) -> tuple[RunningAttempt, AttemptOutcome]:
        """The next attempt that is over; its slot is free."""
        running, outcome = self.ended.popleft()
        self.slots.end(running.workflow_id)
        self._drivers.pop(running.workflow_id, None)
        return running, outcome

    def cancel_all(self) -> None:
        """Ask every attempt in flight to stop; each is asked once."""
        for workflow_id in self.slots.running:
            self._cancel(workflow_id)

    def cancel_task(self, task_id: str) -> None:
        """Ask the attempts of one task to stop; what they left is recorded as cancelled."""
        for workflow_id, running in self.slots.running.items():
            if running.task.task_id == task_id:
                self._cancel(workflow_id)

    def leave_out(self, item: ReadyAttempt) -> None:
        """Record an attempt of a cancelled task as cancelled, without starting it."""
        running = self._running(item)
        self.slots.start(running)
        self._spawn(self._record_cancelled(running), self._messages)

    async def _record_cancelled(self, running: RunningAttempt) -> None:
        self.ended.append((running, await self._lost(running, "cancelled by an operator", cancelled=True)))

    def _cancel(self, workflow_id: str) -> None:
        if workflow_id in self._cancelled:
            return
        self._cancelled.add(workflow_id)
        driver = self._drivers.get(workflow_id)
        if driver is not None:
            driver.cancel()
        else:
            self._spawn(self._cancel_inherited(workflow_id), self._messages)

    def _spawn(self, work: Coroutine[Any, Any, None], group: set[asyncio.Task[None]]) -> None:
        """Run in the background; what it raises stops the request instead of getting lost."""
        task = in_background(work)
        group.add(task)
        task.add_done_callback(group.discard)
        task.add_done_callback(self._note_failure)

    def _note_failure(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self.failure = task.exception()

    async def _drive(self, running: RunningAttempt) -> None:
        """Start one attempt workflow and wait for its outcome."""
        try:
            outcome = await self._child(running)
        except WorkflowAlreadyStartedError:
            # A run of this request that was reset or terminated started it: there is one such attempt.
            self._drivers.pop(running.workflow_id, None)
            self._spawn(self._adopt([running]), self._adoptions)
            return
        except ChildWorkflowError as error:
            outcome = await self._lost(running, root_cause(error), is_cancelled_exception(error))
        except asyncio.CancelledError:
            outcome = await self._lost(running, "cancelled before it started", cancelled=True)
        except Exception as error:  # anything else is a bug: end the request instead of hanging it
            self.failure = error
            outcome = _unrecorded(running, f"{type(error).__name__}: {error}")
        finally:
            self._starting.discard(running.workflow_id)
        self.ended.append((running, outcome))

    async def _child(self, running: RunningAttempt) -> AttemptOutcome:
        handle = await workflow.start_child_workflow(
            ATTEMPT_WORKFLOW,
            AttemptInput(
                ref=self._ref(running),
                attempts=self._input.request.execution.attempts,
                heartbeat_timeout_seconds=self._input.runtime.heartbeat_timeout_seconds,
                cleanup_grace_seconds=self._input.runtime.cleanup_grace_seconds,
                in_one_step=True,
                host_lost_after_seconds=self._input.runtime.host_lost_after_seconds,
            ),
            id=running.workflow_id,
            result_type=AttemptOutcome,
            parent_close_policy=ParentClosePolicy.ABANDON,
            cancellation_type=ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
            search_attributes=request_attributes(
                self._input.launch_id,
                self._input.request,
                run_id=self._run_id,
                task_id=running.task.task_id,
            ),
            static_summary=f"{running.task.task_id} · attempt {running.attempt}",
        )
        self._starting.discard(running.workflow_id)
        outcome: AttemptOutcome = await handle
        return outcome

    async def _adopt(self, attempts: Sequence[RunningAttempt]) -> None:
        """Wait for attempts that this run is not the parent of."""
        left = {running.workflow_id: running for running in attempts}
        while left:
            try:
                awaited = await self._next_of(list(left))
            except FailureError as error:
                # Nobody will tell how they end, so they must not go on unseen.
                for running in left.values():
                    await self._cancel_inherited(running.workflow_id)
                    self.ended.append((running, await self._lost(running, root_cause(error))))
                return
            for item in awaited.ended:
                running = left.pop(item.workflow_id)
                outcome = item.outcome or await self._lost(running, item.failure, item.cancelled)
                self.ended.append((running, outcome))

    async def _next_of(self, workflow_ids: list[str]) -> AwaitedAttempts:
        found: AwaitedAttempts = await workflow.execute_activity(
            AWAIT_ATTEMPTS.name,
            AwaitAttemptsInput(workflow_ids=workflow_ids),
            result_type=AwaitedAttempts,
            start_to_close_timeout=LONGEST_PHASE,
            heartbeat_timeout=timedelta(seconds=self._input.runtime.heartbeat_timeout_seconds),
            retry_policy=BOOKKEEPING,
            summary=f"wait for {len(workflow_ids)} attempts of the run before",
        )
        return found

    async def _lost(self, running: RunningAttempt, reason: str, cancelled: bool = False) -> AttemptOutcome:
        """An attempt workflow ended without an outcome: say so in the records, unless all stops."""
        if self._stopping():
            return _stopped(running, reason)
        issue = Issue(
            severity=Severity.ERROR if cancelled else Severity.FATAL,
            phase=IssuePhase.RUN,
            code=IssueCode.CANCELLED if cancelled else IssueCode.INTERNAL_ERROR,
            message=("cancelled by an operator" if cancelled else reason)[:4000],
        )
        argument = SaveAttemptInput(
            ref=ExecutionRef(**self._ref(running).model_dump()),
            attempts=self._input.request.execution.attempts,
            issues=[issue],
            cancelled=cancelled,
            latest=True,
        )
        try:
            return await bookkeeping(SAVE_ATTEMPT, argument, summary=f"record {running.task.task_id}"[:190])
        except FailureError as error:
            # Not even that could be written: the task stays without a record, and the request goes on.
            return _unrecorded(running, f"{reason}; {root_cause(error)}")
        except asyncio.CancelledError:
            return _stopped(running, reason)

    async def _tell_to_go(self, workflow_id: str) -> None:
        try:
            await workflow.get_external_workflow_handle(workflow_id).signal(GO_SIGNAL)
        except FailureError as error:
            # It ended in the meantime, and its slot with it.
            workflow.logger.info("attempt %s took no slot: %s", workflow_id, error)

    async def _cancel_inherited(self, workflow_id: str) -> None:
        try:
            await workflow.get_external_workflow_handle(workflow_id).cancel()
        except FailureError as error:
            # It ended in the meantime; the adopting activity reports how.
            workflow.logger.info("attempt %s needs no cancelling: %s", workflow_id, error)

    def _ref(self, running: RunningAttempt) -> AttemptRef:
        return AttemptRef(
            run_dir=self._run_dir,
            task_index=running.task.index,
            task_id=running.task.task_id,
            attempt=running.attempt,
            generation=running.task.generation,
        )


def _stopped(running: RunningAttempt, reason: str) -> AttemptOutcome:
    return AttemptOutcome(
        task_id=running.task.task_id, attempt=running.attempt, status=TaskStatus.CANCELLED, message=reason
    )


def _unrecorded(running: RunningAttempt, reason: str) -> AttemptOutcome:
    return AttemptOutcome(
        task_id=running.task.task_id,
        attempt=running.attempt,
        status=TaskStatus.RUN_ERROR,
        fatal=True,
        message=reason[:300],
    )
