"""One launch: preflight, then its requests, within one deadline, and a summary of all.

A launch of many requests continues as new before its history gets long: see ``roster.py``.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey, VersioningBehavior
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from ..contracts import search_attributes as attributes
    from ..contracts.activities import (
        PREFLIGHT,
        SAVE_LAUNCH_SUMMARY,
        LaunchSummaryInput,
        PreflightInput,
    )
    from ..contracts.dispatch import Demand
    from ..contracts.endpoints import EndpointState
    from ..contracts.launch import (
        LaunchResult,
        LaunchSpec,
        LaunchStatus,
        LaunchStatusName,
        RequestResult,
        RequestStatus,
    )
    from ..contracts.launch_state import LaunchState, StopStatus
    from ..contracts.workflows import (
        BEGAN_MEMO,
        CANCEL_REQUEST_SIGNAL,
        CANCEL_SIGNAL,
        DEMAND_SIGNAL,
        ENDPOINT_SIGNAL,
        LAUNCH_WORKFLOW,
        LIMITS_SIGNAL,
        PAUSE_SIGNAL,
        RESUME_SIGNAL,
        STATUS_QUERY,
        LaunchInput,
        LimitsChange,
    )
    from .calls import being_evicted, bookkeeping, exit_code_of, in_background, root_cause
    from .member import Member
    from .roster import Roster
    from .signals import model_of, text_of

_OUTCOME = SearchAttributeKey.for_keyword(attributes.OUTCOME)
_RUN_ID = SearchAttributeKey.for_keyword(attributes.RUN_ID)


@workflow.defn(name=LAUNCH_WORKFLOW, versioning_behavior=VersioningBehavior.AUTO_UPGRADE)
class LaunchWorkflow:
    """Owns the deadline and how the launch ends; its requests are the roster's business."""

    @workflow.init
    def __init__(self, input: LaunchInput) -> None:
        state = input.state
        self._input = input
        self._roster = Roster(input, self._show)
        self._stop_status: StopStatus | None = state.stop_status if state else None
        self._stop_reason = state.stop_reason if state else ""
        self._started_at = state.started_at if state else ""
        self._deadline = state.deadline if state else None
        self._state: LaunchStatusName = "preflight"
        if state is not None:
            self._state = "stopping" if self._stop_status else "running"

    @workflow.run
    async def run(self, input: LaunchInput) -> LaunchResult:
        """Returns the launch's result, whatever became of its requests."""
        main = in_background(self._main(input))
        while True:
            try:
                result = await asyncio.shield(main)
                if result is None:
                    await workflow.wait_condition(lambda: self._roster.settled)
                break
            except asyncio.CancelledError:
                if being_evicted():
                    raise
                self._stop("cancelled", "cancelled")
        if result is None:
            workflow.continue_as_new(
                self._input.model_copy(update={"state": self._carried_over()}),
                # For lists of launches: the runs that follow begin later than the launch did.
                memo={BEGAN_MEMO: workflow.info().start_time.isoformat(), **workflow.memo()},
            )
        self._state = result.status
        outcome = "refused" if result.refused else result.status
        found = [_OUTCOME.value_set(outcome)]
        run_ids = {request.run_id for request in result.requests if request.run_id}
        if len(run_ids) == 1:  # of the only request, or of all requests of a scheduled launch
            found.append(_RUN_ID.value_set(run_ids.pop()))
        workflow.upsert_search_attributes(found)
        self._show()
        return result

    async def _main(self, input: LaunchInput) -> LaunchResult | None:
        """``None`` asks for continue-as-new."""
        if input.state is None:
            refusal = await self._preflight(input.spec)
            if refusal is not None:
                return refusal
            if not self._stop_status:
                self._state = "running"
            # The clock starts after preflight: specification, section 2.
            self._started_at = workflow.now().isoformat(timespec="milliseconds")
            if seconds := input.spec.runtime.timeout_seconds:
                self._deadline = workflow.time() + seconds
        watching = asyncio.create_task(self._watch_deadline())
        if input.state is not None or not self._stop_status:
            if not await self._roster.run():
                return None
        watching.cancel()
        result = self._result()
        if input.spec.is_plan and result.requests:
            result = await self._summarize(result)
        return result

    def _carried_over(self) -> LaunchState:
        """The state for the next run, as it is at the very last moment."""
        roster = self._roster
        return LaunchState(
            started_at=self._started_at,
            deadline=self._deadline,
            stop_status=self._stop_status,
            stop_reason=self._stop_reason,
            paused=roster.paused,
            task_concurrency=roster.task_concurrency,
            provider_limits=roster.provider_limits,
            endpoints=roster.endpoint_states,
            members=[member.carried_over() for member in roster.members],
        )

    async def _summarize(self, result: LaunchResult) -> LaunchResult:
        """Write the table of all requests beside their runs."""
        argument = LaunchSummaryInput(
            results_dir=self._input.spec.runtime.results_dir,
            name=self._input.spec.name,
            result=result,
            started_at=self._started_at,
            finished_at=workflow.now().isoformat(timespec="milliseconds"),
        )
        try:
            saved = await bookkeeping(SAVE_LAUNCH_SUMMARY, argument, summary="launch_summary.json")
        except FailureError as error:
            # The runs are complete without it, and the result of the workflow says the same.
            workflow.logger.warning("no launch_summary.json: %s", root_cause(error))
            return result
        return result.model_copy(update={"summary_path": saved.path})

    async def _preflight(self, spec: LaunchSpec) -> LaunchResult | None:
        """Why the launch cannot be carried out; ``None`` when it can, or need not any more."""
        checking = in_background(
            bookkeeping(
                PREFLIGHT,
                PreflightInput(spec=spec),
                heartbeat_timeout=timedelta(seconds=spec.runtime.heartbeat_timeout_seconds),
                summary="check every component",
            )
        )
        await workflow.wait_condition(lambda: checking.done() or bool(self._stop_status))
        if not checking.done():
            checking.cancel()
        try:
            report = await checking
        except (FailureError, asyncio.CancelledError) as error:
            if self._stop_status and is_cancelled_exception(error):
                return None
            return self._refused(root_cause(error), exit_code_of(error) or 1)
        if report.problems or report.unreachable:
            return self._refused(
                "\n".join([*report.problems, *report.unreachable]), 2 if report.problems else 3
            )
        self._roster.know(report.endpoints)
        return None

    def _refused(self, message: str, exit_code: int) -> LaunchResult:
        return LaunchResult(
            launch_id=self._input.launch_id, status="failed", error=message, exit_code=exit_code
        )

    async def _watch_deadline(self) -> None:
        if self._deadline is None:
            return
        left = timedelta(seconds=max(0.0, self._deadline - workflow.time()))
        await workflow.sleep(left, summary="deadline of the launch")
        seconds = self._input.spec.runtime.timeout_seconds
        self._stop("timed_out", f"the launch ran for {seconds:g} s (timeout_seconds)")

    def _result(self) -> LaunchResult:
        results = self._roster.results
        valid = sum(result.valid for result in results)
        code = max((result.exit_code for result in results), default=0)
        status: LaunchStatusName
        if valid == len(self._input.spec.requests):
            status = "completed"  # also when it was stopped in the moment in which it was done
            if any(result.regression for result in results):
                status, code = "failed", 1
        elif self._stop_status == "timed_out":
            status, code = "timed_out", 1
        elif self._stop_status:
            status, code = "cancelled", 130
        else:
            status = "partial_failure" if valid else "failed"
            if any(result.run_dir for result in results):
                code = min(code, 1)  # 2 and 3 say that nothing was begun, and there is something to look at
        return LaunchResult(
            launch_id=self._input.launch_id,
            status=status,
            requests=results,
            error="" if status == "completed" else self._error(results),
            exit_code=code,
        )

    def _error(self, results: list[RequestResult]) -> str:
        lines = [text for result in results for text in (result.error, result.regression) if text]
        return self._stop_reason or "\n".join(lines)

    def _stop(self, status: StopStatus, reason: str) -> None:
        if self._stop_status:
            return
        self._stop_status, self._stop_reason = status, reason
        begun = self._state == "running"  # during preflight there is no request to end
        self._state = "stopping"
        self._show()
        if begun:
            self._roster.stop_all(status, reason)

    def _show(self) -> None:
        """The table that the Temporal UI shows for this workflow."""
        rows = ["| request | state | slots |", "|---|---|---|"]
        for member in self._roster.members:
            rows.append(f"| {member.key} | {_state_of(member)} | {member.share.current or ''} |")
        head = f"**{self._state}** {self._stop_reason or self._roster.paused}".strip()
        workflow.set_current_details("\n".join([head, "", *rows]))

    @workflow.query(name=STATUS_QUERY)
    def status(self) -> LaunchStatus:
        """Which requests there are and how far they are; ask each request for its counters."""
        paused = self._roster.paused
        return LaunchStatus(
            launch_id=self._input.launch_id,
            name=self._input.spec.name,
            state="paused" if paused and self._state == "running" else self._state,
            task_concurrency=self._roster.task_concurrency,
            provider_limits=self._roster.provider_limits,
            requests=[_request_status(member) for member in self._roster.members],
            message=self._stop_reason or paused,
        )

    @workflow.signal(name=DEMAND_SIGNAL)
    def demand(self, *arguments: Any) -> None:
        """``request key, Demand``: what a request could use and what it has."""
        demand = model_of(Demand, arguments[1:])
        if demand is not None:
            self._roster.hear(text_of(arguments), demand)

    @workflow.signal(name=ENDPOINT_SIGNAL)
    def endpoint(self, *arguments: Any) -> None:
        """``request key, EndpointState``: an endpoint refused the account, or an operator says that it is mended."""
        report = model_of(EndpointState, arguments[1:])
        if report is not None:
            self._roster.hear_of_endpoint(text_of(arguments), report)

    @workflow.signal(name=LIMITS_SIGNAL)
    def set_limits(self, *arguments: Any) -> None:
        """``LimitsChange``: another concurrency or other provider limits from now on."""
        change = model_of(LimitsChange, arguments)
        if change is not None:
            self._roster.set_limits(change)
            self._show()

    @workflow.signal(name=CANCEL_REQUEST_SIGNAL)
    def cancel_request(self, *arguments: Any) -> None:
        """``request key, reason``: end one request; the others go on."""
        member = self._roster.find(text_of(arguments))
        if member is not None:
            self._roster.stop_one(member, "cancelled", text_of(arguments, 1, default="cancelled"))
            self._show()

    @workflow.signal(name=CANCEL_SIGNAL)
    def cancel(self, *arguments: Any) -> None:
        """``reason``: cancel what runs, clean up, and end as cancelled."""
        self._stop("cancelled", text_of(arguments, default="cancelled"))

    @workflow.signal(name=PAUSE_SIGNAL)
    def pause(self, *arguments: Any) -> None:
        """``reason``: start no further attempts."""
        self._roster.pause(text_of(arguments, default=self._roster.paused or "paused by an operator"))
        self._show()

    @workflow.signal(name=RESUME_SIGNAL)
    def resume(self, *_: Any) -> None:
        """Go on after ``pause``."""
        self._roster.resume()
        self._show()


def _state_of(member: Member) -> str:
    result = member.result
    if result is None:
        return member.state.replace("|", "/")
    value = "" if result.value is None else f" · {result.primary} = {result.value:.4f}"
    return f"{result.status}{value} {result.error or result.comparison}".strip().replace("|", "/")


def _request_status(member: Member) -> RequestStatus:
    """What the launch knows of a request; its own workflow knows how far it is."""
    if member.result:
        return member.result.as_status(member.workflow_id)
    request = member.request
    return RequestStatus(
        key=member.key,
        workflow_id=member.workflow_id,
        benchmark=request.benchmark.id,
        harness=request.harness.id,
        model=request.model.id,
        environment=request.environment.id,
    )
