"""One launch: preflight, then its requests in order, within one deadline."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import FailureError, is_cancelled_exception
from temporalio.workflow import ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from ..contracts import search_attributes as attributes
    from ..contracts.activities import PREFLIGHT, PreflightInput
    from ..contracts.launch import (
        LaunchResult,
        LaunchSpec,
        LaunchStatus,
        LaunchStatusName,
        RequestResult,
        RequestStatus,
    )
    from ..contracts.records import TemporalInfo
    from ..contracts.request import RunRequest
    from ..contracts.workflows import (
        CANCEL_SIGNAL,
        LAUNCH_WORKFLOW,
        PAUSE_SIGNAL,
        REQUEST_WORKFLOW,
        RESUME_SIGNAL,
        STATUS_QUERY,
        STOP_SIGNAL,
        LaunchInput,
        RequestInput,
        request_key,
        request_workflow_id,
    )
    from .attributes import request_attributes
    from .calls import being_evicted, bookkeeping, exit_code_of, in_background, root_cause
    from .signals import text_of

_OUTCOME = SearchAttributeKey.for_keyword(attributes.OUTCOME)


@workflow.defn(name=LAUNCH_WORKFLOW)
class LaunchWorkflow:
    """Owns the deadline and the order of requests."""

    @workflow.init
    def __init__(self, input: LaunchInput) -> None:
        self._input = input
        self._state: LaunchStatusName = "preflight"
        self._results: dict[str, RequestResult] = {}
        self._current: workflow.ChildWorkflowHandle[object, RequestResult] | None = None
        self._stop_status = ""
        self._stop_reason = ""
        self._paused = ""

    @workflow.run
    async def run(self, input: LaunchInput) -> LaunchResult:
        """Returns the launch's result, whatever became of its requests."""
        main = in_background(self._main(input))
        while True:
            try:
                result = await asyncio.shield(main)
                break
            except asyncio.CancelledError:
                if being_evicted():
                    raise
                await self._stop("cancelled", "cancelled")
        self._state = result.status
        outcome = "refused" if result.refused else result.status
        workflow.upsert_search_attributes([_OUTCOME.value_set(outcome)])
        self._show()
        return result

    async def _main(self, input: LaunchInput) -> LaunchResult:
        refusal = await self._preflight(input.spec)
        if refusal is not None:
            return refusal
        if not self._stop_status:
            self._state = "running"
        # The clock starts after preflight: specification, section 2.
        deadline = asyncio.create_task(self._watch_deadline(input.spec.runtime.timeout_seconds))
        for index, request in enumerate(input.spec.requests):
            if self._stop_status:
                break
            self._show()
            await self._run_request(index, request)
        deadline.cancel()
        return self._result()

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
        return None

    def _refused(self, message: str, exit_code: int) -> LaunchResult:
        return LaunchResult(
            launch_id=self._input.launch_id, status="failed", error=message, exit_code=exit_code
        )

    async def _watch_deadline(self, seconds: float) -> None:
        if seconds > 0:
            await workflow.sleep(timedelta(seconds=seconds), summary="deadline of the launch")
            await self._stop("timed_out", f"the launch ran for {seconds:g} s (timeout_seconds)")

    async def _run_request(self, index: int, request: RunRequest) -> None:
        info = workflow.info()
        key = request_key(index, request)
        workflow_id = request_workflow_id(self._input.launch_id, key)
        try:
            self._current = await workflow.start_child_workflow(
                REQUEST_WORKFLOW,
                RequestInput(
                    launch_id=self._input.launch_id,
                    request_key=key,
                    request_index=index,
                    request_count=len(self._input.spec.requests),
                    request=request,
                    runtime=self._input.spec.runtime,
                    task_concurrency=concurrency_of(self._input.spec, request),
                    temporal=TemporalInfo(
                        namespace=info.namespace,
                        workflow_id=info.workflow_id,
                        run_id=info.run_id,
                        ui_address=self._input.ui_address,
                    ),
                    **self._input.overrides.model_dump(exclude_none=True),
                ),
                id=workflow_id,
                result_type=RequestResult,
                parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
                search_attributes=request_attributes(self._input.launch_id, request),
                static_summary=f"{request.benchmark.id} · {request.harness.id} · {request.model.id}",
            )
            self._show()
            if self._paused:
                await self._signal(self._current, PAUSE_SIGNAL, self._paused)
            if self._stop_status:
                await self._signal(self._current, STOP_SIGNAL, self._stop_status, self._stop_reason)
            self._results[key] = await self._current
        except FailureError as error:
            # Its workflow failed, was terminated, or could not be started: the others go on.
            self._results[key] = failed_request(key, request, error)
        finally:
            self._current = None

    def _result(self) -> LaunchResult:
        results = list(self._results.values())
        valid = sum(result.valid for result in results)
        code = max((result.exit_code for result in results), default=0)
        status: LaunchStatusName
        if valid == len(self._input.spec.requests):
            status = "completed"  # also when it was stopped in the moment in which it was done
        elif self._stop_status == "timed_out":
            status, code = "timed_out", 1
        elif self._stop_status:
            status, code = "cancelled", 130
        else:
            status = "partial_failure" if valid else "failed"
        return LaunchResult(
            launch_id=self._input.launch_id,
            status=status,
            requests=results,
            error="" if status == "completed" else self._error(results),
            exit_code=code,
        )

    def _error(self, results: list[RequestResult]) -> str:
        return self._stop_reason or "\n".join(result.error for result in results if result.error)

    async def _stop(self, status: str, reason: str) -> None:
        if self._stop_status:
            return
        self._stop_status, self._stop_reason = status, reason
        self._state = "stopping"
        self._show()
        if self._current is not None:
            await self._signal(self._current, STOP_SIGNAL, status, reason)

    async def _signal(
        self, child: workflow.ChildWorkflowHandle[object, RequestResult], name: str, *arguments: str
    ) -> None:
        try:
            await child.signal(name, args=list(arguments))
        except FailureError as error:
            # The request ended in the meantime, so there is nothing left to tell it.
            workflow.logger.info("request %s took no %s signal: %s", child.id, name, error)

    def _show(self) -> None:
        """The table that the Temporal UI shows for this workflow."""
        rows = ["| request | state |", "|---|---|"]
        for index, request in enumerate(self._input.spec.requests):
            key = request_key(index, request)
            result = self._results.get(key)
            if result is None:
                state = "running" if self._current and self._current.id.endswith(f"/{key}") else "waiting"
            else:
                value = "" if result.value is None else f" · {result.primary} = {result.value:.4f}"
                state = f"{result.status}{value} {result.error}".strip()
            rows.append(f"| {key} | {state.replace('|', '/')} |")
        head = f"**{self._state}** {self._stop_reason or self._paused}".strip()
        workflow.set_current_details("\n".join([head, "", *rows]))

    @workflow.query(name=STATUS_QUERY)
    def status(self) -> LaunchStatus:
        """Which requests there are and how far they are; ask each request for its counters."""
        requests: list[RequestStatus] = []
        for index, request in enumerate(self._input.spec.requests):
            key = request_key(index, request)
            result = self._results.get(key)
            requests.append(
                RequestStatus(
                    key=key,
                    workflow_id=request_workflow_id(self._input.launch_id, key),
                    state=result.status if result else "pending",
                    run_dir=result.run_dir if result else "",
                    run_id=result.run_id if result else "",
                    benchmark=request.benchmark.id,
                    harness=request.harness.id,
                    model=request.model.id,
                    environment=request.environment.id,
                    total_tasks=result.total_tasks if result else 0,
                    finished_tasks=result.total_tasks if result else 0,
                    message=result.error if result else "",
                )
            )
        state = "paused" if self._paused and self._state == "running" else self._state
        return LaunchStatus(
            launch_id=self._input.launch_id,
            name=self._input.spec.name,
            state=state,
            requests=requests,
            message=self._stop_reason or self._paused,
        )

    @workflow.signal(name=CANCEL_SIGNAL)
    async def cancel(self, *arguments: Any) -> None:
        """``reason``: cancel what runs, clean up, and end as cancelled."""
        await self._stop("cancelled", text_of(arguments, default="cancelled"))

    @workflow.signal(name=PAUSE_SIGNAL)
    async def pause(self, *arguments: Any) -> None:
        """``reason``: start no further attempts."""
        self._paused = text_of(arguments, default="paused by an operator")
        self._show()
        if self._current is not None:
            await self._signal(self._current, PAUSE_SIGNAL, self._paused)

    @workflow.signal(name=RESUME_SIGNAL)
    async def resume(self, *_: Any) -> None:
        """Go on after ``pause``."""
        self._paused = ""
        self._show()
        if self._current is not None:
            await self._signal(self._current, RESUME_SIGNAL)


def concurrency_of(spec: LaunchSpec, request: RunRequest) -> int:
    """Attempts at a time: the launch's limit, or its provider's when that is smaller (0 is none)."""
    limit = spec.runtime.provider_limits.get(request.environment.id, 0)
    return min(spec.task_concurrency, limit) if limit else spec.task_concurrency


def failed_request(key: str, request: RunRequest, error: FailureError) -> RequestResult:
    """The result of a request whose workflow failed: it could not be prepared, or we have a bug."""
    return RequestResult(
        key=key,
        status="failed",
        benchmark=request.benchmark.id,
        harness=request.harness.id,
        model=request.model.id,
        environment=request.environment.id,
        error=root_cause(error),
        exit_code=exit_code_of(error) or 1,
    )
