"""One request: prepare its run, keep a window of attempts running, finalize."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey, VersioningBehavior
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from ..contracts import search_attributes as attributes
    from ..contracts.activities import (
        FINALIZE_REQUEST,
        AttemptOutcome,
        FinalizeInput,
    )
    from ..contracts.dispatch import Allowance
    from ..contracts.launch import RequestResult, RequestStatus
    from ..contracts.records import RunStatus
    from ..contracts.result import TaskStatus
    from ..contracts.workflows import (
        ALLOWANCE_SIGNAL,
        CANCEL_SIGNAL,
        CANCEL_TASK_SIGNAL,
        ENDPOINT_SIGNAL,
        PARKED_SIGNAL,
        PAUSE_SIGNAL,
        READY_SIGNAL,
        REQUEST_WORKFLOW,
        RESUME_SIGNAL,
        RETRY_FAILED_SIGNAL,
        STATUS_QUERY,
        STOP_SIGNAL,
        ParkedAttempt,
        ParkReason,
        RequestInput,
        RequestState,
        RunningAttempt,
    )
    from .allotment import Allotment
    from .analysis import Analysis
    from .calls import being_evicted, bookkeeping, in_background, root_cause
    from .pause import Pause
    from .preparation import prepare
    from .request_view import request_status, request_table, unsummarized
    from .signals import model_of, text_of
    from .slots import Slots
    from .task_queue import TaskQueue
    from .window import AttemptWindow


@workflow.defn(name=REQUEST_WORKFLOW, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class RequestWorkflow:
    """Runs the tasks of one request; which attempts are in flight is the window's business."""

    @workflow.init
    def __init__(self, input: RequestInput) -> None:
        self._input = input
        state = input.state
        self._state = state
        # Here and not later: signals of the first workflow task are handled before anything else.
        self._slots = Slots(state)
        self._pause = Pause(input, self._pause_changed)
        self._allotment = Allotment(
            input, self._demand, self._launch_is_gone, may_report=lambda: self._pause.settled
        )
        self._cancelled_tasks = set(state.cancelled_tasks) if state else set()
        self._generation = state.generation if state else 0
        self._requeues = state.requeues if state else 0
        self._window: AttemptWindow | None = None
        self._analysis: Analysis | None = None
        self._phase = "preparing"
        self._queue: TaskQueue | None = None
        self._stop_status: RunStatus | None = state.stop_status if state else None
        self._stop_reason = state.stop_reason if state else ""
        self._watch: asyncio.Task[None] | None = None

    @workflow.run
    async def run(self, input: RequestInput) -> RequestResult:
        """Returns the request's result, also when it was cancelled or timed out."""
        main = in_background(self._main())
        while True:
            try:
                result = await asyncio.shield(main)
                break
            except asyncio.CancelledError:
                if being_evicted():
                    raise
                # Cancelled by an operator or the launch: stop in order, never in the middle.
                self._stop("cancelled", "cancelled")
        if result is None:
            workflow.continue_as_new(self._input.model_copy(update={"state": self._carried_over()}))
        return result

    async def _main(self) -> RequestResult | None:
        """``None`` asks for continue-as-new."""
        if self._state is None:
            self._state = await prepare(
                self._input, lambda: self._stop_status is not None, self._allotment.slots, self._note_leftover
            )
        if self._state is None:
            return self._result_without_run()
        if self._input.state is None:  # the runs after continue-as-new inherit it
            key = SearchAttributeKey.for_keyword(attributes.RUN_ID)
            workflow.upsert_search_attributes([key.value_set(self._state.run_id)])
        self._window = AttemptWindow(
            self._input, self._state, self._slots, lambda: self._stop_status is not None
        )
        self._queue = TaskQueue(self._input.request.execution.attempts, self._state)
        if self._state.analyzes:
            self._analysis = Analysis(self._state.run_dir, self._state.unanalyzed, self._heartbeat)
        self._phase = "running"
        if self._input.abandoned:
            self._watch = in_background(self._allotment.watch_launch())
        if self._input.shares_slots and self._input.state is None:
            await self._read_page(self._queue)  # so that the first report tells the truth
        while True:
            if not await self._run_tasks(self._state, self._window, self._queue):
                return None
            if not await self._wait_for_end():
                return await self._finalize(self._state)
            self._phase = "running"

    async def _wait_for_end(self) -> bool:
        """After the tasks: their analysis, then the word of the launch. True when failed ones are wanted again."""
        stopped = self._stop_status, self._stop_reason
        if self._analysis is not None:
            await self._analysis.finish(lambda: self._stop_status is not None)
        self._phase = "waiting"
        await workflow.wait_condition(
            lambda: self._allotment.may_finish or self._stop_status is not None or self._requeues > 0
        )
        again = self._requeues > 0 and self._stop_status is None
        # The tasks are through: a stop that came only now has ended the waiting, not the run.
        self._stop_status, self._stop_reason = stopped
        return again

    async def _run_tasks(self, state: RequestState, window: AttemptWindow, queue: TaskQueue) -> bool:
        """Until all is done or stopped; False when history got long and nothing is in doubt."""
        while True:
            while self._requeues and not self._stop_status:
                self._requeues -= 1
                self._generation += 1
                queue.requeue_failed(self._generation)
            await self._fill_window(window, queue)
            self._allotment.report()
            self._show()
            done = queue.exhausted and not self._requeues
            if not self._slots.running and (self._stop_status or done):
                return True
            await workflow.wait_condition(lambda: self._something_to_do(window, queue))
            while window.ended:
                self._account(state, queue, *window.take_ended())
            if window.failure is not None:
                self._stop("failed", root_cause(window.failure))
            if self._stop_status:
                window.cancel_all()
            elif self._history_is_long(window, queue):
                await workflow.wait_condition(lambda: self._settled(window))
                return False

    def _settled(self, window: AttemptWindow) -> bool:
        """True when nothing is in doubt, so that another run may go on."""
        told = self._pause.settled and self._allotment.settled
        return window.settled and told and workflow.all_handlers_finished()

    def _something_to_do(self, window: AttemptWindow, queue: TaskQueue) -> bool:
        """True when a turn of the loop would change anything."""
        if window.ended or (window.failure is not None and not self._stop_status):
            return True
        if self._stop_status:
            return window.uncancelled or not self._slots.running
        if self._requeues or (self._has_slot() and self._slots.waiting):
            return True
        if self._history_is_long(window, queue):
            return True
        return not self._slots.running if queue.exhausted else self._has_slot()

    def _has_slot(self) -> bool:
        return not self._stop_status and not self._pause.reason and self._slots.taken < self._allotment.slots

    def _demand(self) -> tuple[int, int] | None:
        """Attempts that could start if there were slots for them, and slots in use."""
        if self._queue is None:
            return None
        if self._stop_status or self._pause.reason:
            return 0, self._slots.taken
        unread = self._allotment.limit if self._queue.unread else 0
        return len(self._queue.ready) + len(self._slots.waiting) + unread, self._slots.taken

    def _history_is_long(self, window: AttemptWindow, queue: TaskQueue) -> bool:
        """By our own count while attempts are to be started; by the server's, retries may do it, too."""
        many = window.started >= self._input.continue_as_new_after and not queue.exhausted
        return many or workflow.info().is_continue_as_new_suggested()

    async def _fill_window(self, window: AttemptWindow, queue: TaskQueue) -> None:
        """Use the free slots; all starts of a round go out in one workflow task."""
        # Attempts that have begun go first, or they would keep their environments for ever.
        while self._has_slot() and self._slots.waiting:
            window.let_go_on()
        while self._has_slot() and not queue.exhausted and not self._history_is_long(window, queue):
            if not queue.ready:
                await self._read_page(queue)
                continue
            item = queue.ready.popleft()
            if item.task.task_id in self._cancelled_tasks:
                window.leave_out(item)
            else:
                window.start(item)

    async def _read_page(self, queue: TaskQueue) -> None:
        assert self._state is not None  # there is a queue
        try:
            self._state.counters.take_back(await queue.read_page())
        except FailureError as error:
            self._stop("failed", root_cause(error))

    def _account(
        self, state: RequestState, queue: TaskQueue, running: RunningAttempt, outcome: AttemptOutcome
    ) -> None:
        if self._stop_status and outcome.status == TaskStatus.CANCELLED:
            return
        if not outcome.task_finished:
            queue.put_next(running, outcome)
            return
        self._cancelled_tasks.discard(running.task.task_id)
        state.counters.add(outcome)
        if self._analysis is not None:
            self._analysis.add(running.task.index)

    def _carried_over(self) -> RequestState:
        """The state for the next run, as it is at the very last moment."""
        assert self._state is not None and self._window is not None and self._queue is not None
        window, queue = self._window, self._queue
        while window.ended:
            self._account(self._state, queue, *window.take_ended())
        slots = self._slots
        return self._state.model_copy(
            update={
                "ready": list(queue.ready),
                "next_offset": queue.next_offset,
                "again": list(queue.again),
                "running": list(slots.running.values()),
                "parked": list(slots.parked.values()),
                "waiting": list(slots.waiting),
                "unanalyzed": self._analysis.unanalyzed if self._analysis else [],
                "stop_status": self._stop_status,
                "stop_reason": self._stop_reason,
                "generation": self._generation,
                "requeues": self._requeues,
                "cancelled_tasks": sorted(self._cancelled_tasks),
                **self._pause.state(),
                **self._allotment.state(),
            }
        )

    async def _finalize(self, state: RequestState) -> RequestResult:
        self._phase = "summarizing"
        self._show()
        argument = FinalizeInput(
            run_dir=state.run_dir,
            request_key=self._input.request_key,
            status=self._stop_status or "completed",
            error=self._stop_reason,
        )
        try:
            result = await bookkeeping(
                FINALIZE_REQUEST, argument, heartbeat_timeout=self._heartbeat, summary="metrics and summary"
            )
        except FailureError as error:
            # The records are there, so this is no refusal: `agentcompass summary` can try again.
            result = self._result("failed", f"no summary could be made: {root_cause(error)}")
        self._phase = result.status
        key = SearchAttributeKey.for_keyword(attributes.OUTCOME)
        workflow.upsert_search_attributes([key.value_set(result.status)])
        self._show()
        return result

    @property
    def _heartbeat(self) -> timedelta:
        return timedelta(seconds=self._input.runtime.heartbeat_timeout_seconds)

    def _result_without_run(self) -> RequestResult:
        self._phase = self._stop_status or "failed"
        self._show()
        return self._result(self._phase, self._stop_reason)

    def _result(self, status: str, error: str) -> RequestResult:
        return unsummarized(self._input, self._state, status, error)

    def _stop(self, status: RunStatus, reason: str) -> None:
        if not self._stop_status:
            self._stop_status, self._stop_reason = status, reason

    def _note_leftover(self, text: str) -> None:
        self._stop_reason = f"{self._stop_reason}; {text}"

    def _launch_is_gone(self) -> None:
        self._stop("cancelled", "its launch was ended without it")

    def _show(self) -> None:
        slots = self._slots
        table = request_table(
            self.status(), running=slots.taken, waiting=len(slots.parked), slots=self._allotment.slots
        )
        workflow.set_current_details(table)

    @workflow.query(name=STATUS_QUERY)
    def status(self) -> RequestStatus:
        """The state of the request, for the command line and the UI."""
        shown = self._phase
        if shown == "running" and self._stop_status:
            shown = "stopping"
        elif shown == "running" and self._pause.reason:
            shown = "paused"
        return request_status(
            self._input,
            self._state,
            workflow_id=workflow.info().workflow_id,
            shown=shown,
            running=self._slots.taken,
            waiting=len(self._slots.parked),
            message=self._stop_reason or self._pause.reason,
        )

    @workflow.signal(name=PAUSE_SIGNAL)
    def pause(self, *arguments: Any) -> None:
        """``reason``: start no further attempts; those in flight go on."""
        self._pause.by_operator(arguments)

    @workflow.signal(name=RESUME_SIGNAL)
    def resume(self, *arguments: Any) -> None:
        """Start attempts again, and let those go on that an endpoint had refused."""
        self._pause.resume(arguments)

    @workflow.signal(name=ENDPOINT_SIGNAL)
    def endpoint(self, *arguments: Any) -> None:
        """``EndpointState``: an endpoint of this request refuses the account, or does so no more."""
        self._pause.hear(arguments)

    def _pause_changed(self) -> None:
        if not self._pause.reason:
            self._slots.unblock()
        self._allotment.report()
        self._show()

    @workflow.signal(name=PARKED_SIGNAL)
    def attempt_parked(self, *arguments: Any) -> None:
        """``ParkedAttempt``: one that waits. A blocked one pauses the request: all would be refused."""
        attempt = model_of(ParkedAttempt, arguments)
        if attempt is None or not self._slots.park(attempt):
            return
        if attempt.reason is ParkReason.BLOCKED:
            self._pause.refused(attempt)

    @workflow.signal(name=ALLOWANCE_SIGNAL)
    def allowance(self, *arguments: Any) -> None:
        """``Allowance``: the slots that the launch gives."""
        allowance = model_of(Allowance, arguments)
        if allowance is not None:
            self._allotment.hear(allowance)
            self._allotment.report()

    @workflow.signal(name=RETRY_FAILED_SIGNAL)
    def retry_failed(self, *_: Any) -> None:
        """Execute the tasks again whose records hold a FATAL issue; the rest stays as it is."""
        self._requeues += 1

    @workflow.signal(name=CANCEL_TASK_SIGNAL)
    def cancel_task(self, *arguments: Any) -> None:
        """``task id``: end its attempts and start no other; its record says that it was cancelled."""
        task_id = text_of(arguments)
        if task_id:
            self._cancelled_tasks.add(task_id)
            if self._window is not None:
                self._window.cancel_task(task_id)

    @workflow.signal(name=READY_SIGNAL)
    def attempt_ready(self, *arguments: Any) -> None:
        """``workflow id``: a parked attempt wants its slot back."""
        self._slots.want(text_of(arguments))

    @workflow.signal(name=STOP_SIGNAL)
    def stop(self, *arguments: Any) -> None:
        """``status, reason``: end with ``cancelled`` or ``timed_out``; what runs is cancelled and cleaned up."""
        status = text_of(arguments, default="cancelled")
        self._stop(
            "timed_out" if status == "timed_out" else "cancelled", text_of(arguments, 1, default=status)
        )

    @workflow.signal(name=CANCEL_SIGNAL)
    def cancel(self, *arguments: Any) -> None:
        """``reason``: the same as ``stop`` with status ``cancelled``."""
        self._stop("cancelled", text_of(arguments, default="cancelled"))
