"""One request: prepare its run, keep a window of attempts running, finalize."""

from __future__ import annotations

import asyncio
from collections import deque
from datetime import timedelta

from temporalio import workflow
from temporalio.common import SearchAttributeKey, WorkflowIDReusePolicy
from temporalio.exceptions import ChildWorkflowError, FailureError, is_cancelled_exception
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from ..contracts import search_attributes as attributes
    from ..contracts.activities import (
        AWAIT_ATTEMPTS,
        FINALIZE_REQUEST,
        PENDING_TASKS,
        PREPARE_REQUEST,
        SAVE_ATTEMPT,
        AttemptOutcome,
        AttemptRef,
        AwaitAttemptsInput,
        AwaitedAttempts,
        ExecutionRef,
        FinalizeInput,
        FinishedAttempt,
        PendingTasksInput,
        PrepareRequestInput,
        SaveAttemptInput,
    )
    from ..contracts.issues import Issue, IssueCode, IssuePhase, Severity
    from ..contracts.launch import RequestResult, RequestStatus
    from ..contracts.scheduling import attempts_remaining
    from ..contracts.workflows import (
        ATTEMPT_WORKFLOW,
        CANCEL_SIGNAL,
        GO_SIGNAL,
        PARKED_SIGNAL,
        PAUSE_SIGNAL,
        READY_SIGNAL,
        REQUEST_WORKFLOW,
        RESUME_SIGNAL,
        STATUS_QUERY,
        STOP_SIGNAL,
        AttemptInput,
        ParkedAttempt,
        ParkReason,
        ReadyAttempt,
        RequestInput,
        RequestState,
        RunningAttempt,
        attempt_workflow_id,
    )
    from .attributes import request_attributes
    from .calls import BOOKKEEPING, LONGEST_PHASE, bookkeeping
    from .slots import Slots

_PAGE = 500
"""Tasks read at once: about 30 kB of payload."""


@workflow.defn(name=REQUEST_WORKFLOW)
class RequestWorkflow:
    """Runs the tasks of one request.

    Attempts are children that outlive a run of this workflow: they are ABANDONed, because
    continue-as-new would end them otherwise, so cancelling is explicit, and the next run learns
    of those it inherits through the ``await_attempts`` activity.
    """

    @workflow.init
    def __init__(self, input: RequestInput) -> None:
        self._input = input
        self._state = input.state
        self._phase = "preparing"
        self._ready: deque[ReadyAttempt] = deque()
        self._slots = Slots()
        self._starting: set[str] = set()
        self._ended: deque[tuple[RunningAttempt, AttemptOutcome]] = deque()
        self._started_here = 0
        self._paused = input.state.paused if input.state else ""
        self._stop_status = input.state.stop_status if input.state else ""
        self._stop_reason = input.state.stop_reason if input.state else ""
        self._failure: BaseException | None = None
        self._drivers: dict[str, asyncio.Task[None]] = {}
        self._cancel_requested: set[str] = set()
        self._background: list[asyncio.Task[None]] = []

    @workflow.run
    async def run(self, input: RequestInput) -> RequestResult:
        """Returns the request's result, also when it was cancelled or timed out."""
        main = asyncio.ensure_future(self._main(input))
        while True:
            try:
                ended = await asyncio.shield(main)
                break
            except asyncio.CancelledError:
                # Cancelled by an operator or the launch: stop in order, never in the middle.
                self._stop("cancelled", "cancelled")
        if isinstance(ended, RequestState):
            workflow.continue_as_new(self._input.model_copy(update={"state": ended}))
        return ended

    async def _main(self, input: RequestInput) -> RequestResult | RequestState:
        if self._state is None:
            self._state = await self._prepare()
        else:
            self._resume(self._state)
        self._phase = "running"
        carried = await self._run_tasks()
        return carried or await self._finalize()

    async def _prepare(self) -> RequestState:
        prepared = await bookkeeping(
            PREPARE_REQUEST,
            PrepareRequestInput(
                launch_id=self._input.launch_id,
                request_key=self._input.request_key,
                request_index=self._input.request_index,
                request_count=self._input.request_count,
                request=self._input.request,
                runtime=self._input.runtime,
                temporal=self._input.temporal,
            ),
            heartbeat_timeout=self._heartbeat,
            summary="load tasks, reserve the run directory",
        )
        return RequestState(
            run_dir=prepared.run_dir,
            run_id=prepared.run_id,
            total_tasks=prepared.total_tasks,
            reused_tasks=prepared.reused_tasks,
            parallel_attempts=prepared.parallel_attempts,
            task_concurrency=self._input.task_concurrency,
        )

    def _resume(self, state: RequestState) -> None:
        """Take over the window of the run before this one."""
        self._ready.extend(state.ready)
        for attempt in state.running:
            self._slots.start(attempt)
        for parked in state.parked:
            self._slots.park(parked)
        self._slots.waiting.extend(state.waiting)
        if state.running:
            self._background.append(asyncio.create_task(self._adopt(list(self._slots.running))))

    async def _run_tasks(self) -> RequestState | None:
        """Until all is done or stopped; returns the state to continue with when history got long."""
        while True:
            await self._fill_window()
            self._show()
            if not self._slots.running and not self._ended and (self._stop_status or self._exhausted()):
                return None
            await workflow.wait_condition(self._something_to_do)
            if self._failure is not None:
                raise self._failure
            self._process_ended()
            if self._stop_status:
                self._cancel_running()
            elif self._history_is_long() and not self._exhausted():
                return await self._carry_over()

    def _something_to_do(self) -> bool:
        if self._ended or self._failure is not None:
            return True
        if self._stop_status:
            return not self._slots.running or any(
                key not in self._cancel_requested for key in self._slots.running
            )
        if self._slots.waiting and self._has_slot():
            return True
        return self._can_start() or (self._history_is_long() and not self._exhausted())

    def _can_start(self) -> bool:
        assert self._state is not None
        return self._has_slot() and not self._exhausted() and not self._history_is_long()

    def _has_slot(self) -> bool:
        assert self._state is not None
        return not self._paused and self._slots.taken < self._state.task_concurrency

    def _exhausted(self) -> bool:
        assert self._state is not None
        return not self._ready and self._state.next_offset is None

    async def _fill_window(self) -> None:
        """Start attempts while there are slots; all starts of a round go out in one task."""
        assert self._state is not None
        # Attempts that have begun go first, or they would keep their environments for ever.
        while self._slots.waiting and self._has_slot() and not self._stop_status:
            self._tell_to_go(self._slots.grant())
        while self._can_start() and not self._stop_status:
            if not self._ready:
                await self._read_page(self._state)
                continue
            item = self._ready.popleft()
            running = RunningAttempt(
                workflow_id=attempt_workflow_id(workflow.info().workflow_id, item.task.task_id, item.attempt),
                task=item.task,
                attempt=item.attempt,
            )
            self._slots.start(running)
            self._starting.add(running.workflow_id)
            self._started_here += 1
            self._drivers[running.workflow_id] = asyncio.create_task(self._drive(running))

    async def _read_page(self, state: RequestState) -> None:
        page = await bookkeeping(
            PENDING_TASKS,
            PendingTasksInput(run_dir=state.run_dir, offset=state.next_offset or 0, limit=_PAGE),
            summary="next tasks",
        )
        spec = self._input.request.execution.attempts
        for task in page.tasks:
            remaining = attempts_remaining(spec, task.finished_attempts)
            if not state.parallel_attempts:
                remaining = remaining[:1]
            self._ready.extend(ReadyAttempt(task=task, attempt=attempt) for attempt in remaining)
        state.next_offset = page.next_offset

    async def _drive(self, running: RunningAttempt) -> None:
        """Start one attempt workflow and wait for its outcome."""
        assert self._state is not None
        try:
            handle = await workflow.start_child_workflow(
                ATTEMPT_WORKFLOW,
                AttemptInput(
                    ref=self._ref(running),
                    attempts=self._input.request.execution.attempts,
                    heartbeat_timeout_seconds=self._input.runtime.heartbeat_timeout_seconds,
                    cleanup_grace_seconds=self._input.runtime.cleanup_grace_seconds,
                ),
                id=running.workflow_id,
                result_type=AttemptOutcome,
                parent_close_policy=ParentClosePolicy.ABANDON,
                cancellation_type=ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
                search_attributes=request_attributes(
                    self._input.launch_id,
                    self._input.request,
                    run_id=self._state.run_id,
                    task_id=running.task.task_id,
                ),
                static_summary=f"{running.task.task_id} · attempt {running.attempt}",
            )
            self._starting.discard(running.workflow_id)
            outcome: AttemptOutcome = await handle
        except ChildWorkflowError as error:
            outcome = await self._lost(running, str(error.cause or error), is_cancelled_exception(error))
        except asyncio.CancelledError:
            outcome = await self._lost(running, "cancelled before it started", True)
        except Exception as error:  # anything else is a bug: fail the request instead of hanging it
            self._failure = error
            return
        finally:
            self._starting.discard(running.workflow_id)
        self._ended.append((running, outcome))

    async def _adopt(self, workflow_ids: list[str]) -> None:
        """Wait for attempts that the run before this one started."""
        left = list(workflow_ids)
        while left:
            ended: AwaitedAttempts = await workflow.execute_activity(
                AWAIT_ATTEMPTS.name,
                AwaitAttemptsInput(workflow_ids=left),
                result_type=AwaitedAttempts,
                start_to_close_timeout=LONGEST_PHASE,
                heartbeat_timeout=self._heartbeat,
                retry_policy=BOOKKEEPING,
                summary=f"wait for {len(left)} attempts of the run before",
            )
            for item in ended.ended:
                left.remove(item.workflow_id)
                running = self._slots.running[item.workflow_id]
                outcome = item.outcome or await self._lost(running, item.failure, item.cancelled)
                self._ended.append((running, outcome))

    async def _lost(self, running: RunningAttempt, reason: str, cancelled: bool) -> AttemptOutcome:
        """An attempt workflow ended without an outcome: say so in the records, unless all stops."""
        if self._stop_status:
            return AttemptOutcome(
                task_id=running.task.task_id, attempt=running.attempt, status="cancelled", message=reason
            )
        issue = Issue(
            severity=Severity.ERROR if cancelled else Severity.FATAL,
            phase=IssuePhase.RUN,
            code=IssueCode.CANCELLED if cancelled else IssueCode.INTERNAL_ERROR,
            message=("cancelled by an operator" if cancelled else reason)[:4000],
        )
        return await bookkeeping(
            SAVE_ATTEMPT,
            SaveAttemptInput(
                ref=ExecutionRef(**self._ref(running).model_dump()),
                attempts=self._input.request.execution.attempts,
                issues=[issue],
                cancelled=cancelled,
            ),
            summary=f"record {running.task.task_id}"[:190],
        )

    def _process_ended(self) -> None:
        assert self._state is not None
        counters = self._state.counters
        while self._ended:
            running, outcome = self._ended.popleft()
            self._slots.end(running.workflow_id)
            self._drivers.pop(running.workflow_id, None)
            if outcome.status == "cancelled" and self._stop_status:
                continue
            if outcome.task_finished:
                counters.finished_tasks += 1
                counters.failed_tasks += outcome.fatal
                counters.error_tasks += outcome.error and not outcome.fatal
                counters.warning_tasks += outcome.warning and not (outcome.error or outcome.fatal)
                counters.completed_tasks += not outcome.fatal
            elif not self._state.parallel_attempts:
                self._queue_next(running, outcome)

    def _queue_next(self, running: RunningAttempt, outcome: AttemptOutcome) -> None:
        """The next attempt of the same task goes first, so that tasks get finished."""
        finished = FinishedAttempt(attempt=outcome.attempt, success=outcome.success, fatal=outcome.fatal)
        task = running.task.model_copy(
            update={"finished_attempts": [*running.task.finished_attempts, finished]}
        )
        remaining = attempts_remaining(self._input.request.execution.attempts, task.finished_attempts)
        if remaining:
            self._ready.appendleft(ReadyAttempt(task=task, attempt=remaining[0]))

    def _cancel_running(self) -> None:
        """Ask every attempt in flight to stop; each is asked once."""
        for workflow_id in self._slots.running:
            if workflow_id in self._cancel_requested:
                continue
            self._cancel_requested.add(workflow_id)
            driver = self._drivers.get(workflow_id)
            if driver is not None:
                driver.cancel()
            else:
                self._background.append(asyncio.create_task(self._cancel_inherited(workflow_id)))

    def _tell_to_go(self, workflow_id: str) -> None:
        self._background.append(asyncio.create_task(self._signal_attempt(workflow_id)))

    async def _signal_attempt(self, workflow_id: str) -> None:
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

    def _history_is_long(self) -> bool:
        return (
            self._started_here >= self._input.continue_as_new_after
            or workflow.info().is_continue_as_new_suggested()
        )

    async def _carry_over(self) -> RequestState:
        """The state for the next run, once no child's start is in doubt."""
        assert self._state is not None
        await workflow.wait_condition(lambda: not self._starting)
        await workflow.wait_condition(workflow.all_handlers_finished)
        self._process_ended()
        return self._state.model_copy(
            update={
                "ready": list(self._ready),
                "running": list(self._slots.running.values()),
                "parked": list(self._slots.parked.values()),
                "waiting": list(self._slots.waiting),
                "paused": self._paused,
                "stop_status": self._stop_status,
                "stop_reason": self._stop_reason,
            }
        )

    async def _finalize(self) -> RequestResult:
        assert self._state is not None
        self._phase = "summarizing"
        self._show()
        result = await bookkeeping(
            FINALIZE_REQUEST,
            FinalizeInput(
                run_dir=self._state.run_dir,
                request_key=self._input.request_key,
                status=self._stop_status or "completed",
                error=self._stop_reason,
            ),
            heartbeat_timeout=self._heartbeat,
            summary="metrics and summary",
        )
        self._phase = result.status
        key = SearchAttributeKey.for_keyword(attributes.OUTCOME)
        workflow.upsert_search_attributes([key.value_set(result.status)])
        self._show()
        return result

    @property
    def _heartbeat(self) -> timedelta:
        return timedelta(seconds=self._input.runtime.heartbeat_timeout_seconds)

    def _ref(self, running: RunningAttempt) -> AttemptRef:
        assert self._state is not None
        return AttemptRef(
            run_dir=self._state.run_dir,
            task_index=running.task.index,
            task_id=running.task.task_id,
            attempt=running.attempt,
        )

    def _stop(self, status: str, reason: str) -> None:
        if not self._stop_status:
            self._stop_status, self._stop_reason = status, reason

    def _show(self) -> None:
        """The table that the Temporal UI shows for this workflow."""
        status = self.status()
        rows = {
            "state": f"{status.state} {status.message}".strip(),
            "tasks": f"{status.finished_tasks + status.reused_tasks} of {status.total_tasks} finished"
            + (f" ({status.reused_tasks} reused)" if status.reused_tasks else ""),
            "fatal / error / warning": f"{status.failed_tasks} / {status.error_tasks} / {status.warning_tasks}",
            "attempts running / waiting": f"{self._slots.taken} / {len(self._slots.parked)}",
            "run directory": f"`{status.run_dir}`",
        }
        table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
        workflow.set_current_details(f"| | |\n|---|---|\n{table}")

    @workflow.query(name=STATUS_QUERY)
    def status(self) -> RequestStatus:
        """The state of the request, for the command line and the UI."""
        request = self._input.request
        state = self._state
        counters = state.counters if state else None
        shown = self._phase
        if shown == "running" and self._stop_status:
            shown = "stopping"
        elif shown == "running" and self._paused:
            shown = "paused"
        return RequestStatus(
            key=self._input.request_key,
            workflow_id=workflow.info().workflow_id,
            run_dir=state.run_dir if state else "",
            run_id=state.run_id if state else "",
            state=shown,
            benchmark=request.benchmark.id,
            harness=request.harness.id,
            model=request.model.id,
            environment=request.environment.id,
            total_tasks=state.total_tasks if state else 0,
            reused_tasks=state.reused_tasks if state else 0,
            running_attempts=len(self._slots.running),
            message=self._stop_reason or self._paused,
            **(counters.model_dump() if counters else {}),
        )

    @workflow.signal(name=PAUSE_SIGNAL)
    def pause(self, reason: str) -> None:
        """Start no further attempts; those in flight go on."""
        self._paused = reason or "paused by an operator"

    @workflow.signal(name=RESUME_SIGNAL)
    def resume(self) -> None:
        """Start attempts again, and let those go on that an endpoint had refused."""
        self._paused = ""
        self._slots.unblock()

    @workflow.signal(name=PARKED_SIGNAL)
    def attempt_parked(self, attempt: ParkedAttempt) -> None:
        """An attempt waits. One that is blocked pauses the request: all others would be refused, too."""
        self._slots.park(attempt)
        if attempt.reason is ParkReason.BLOCKED:
            self._paused = (
                f"{attempt.message} (no other attempt is started; mend it, "
                f"then: agentcompass resume {self._input.launch_id})"
            )

    @workflow.signal(name=READY_SIGNAL)
    def attempt_ready(self, workflow_id: str) -> None:
        """A parked attempt wants its slot back."""
        self._slots.want(workflow_id)

    @workflow.signal(name=STOP_SIGNAL)
    def stop(self, status: str, reason: str) -> None:
        """End with ``cancelled`` or ``timed_out``: attempts in flight are cancelled and cleaned up."""
        self._stop(status if status in ("cancelled", "timed_out") else "cancelled", reason)

    @workflow.signal(name=CANCEL_SIGNAL)
    def cancel(self, reason: str) -> None:
        """The same as ``stop`` with status ``cancelled``."""
        self._stop("cancelled", reason or "cancelled")
