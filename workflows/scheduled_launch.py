"""The launch of one scheduled time: derives its ids, starts it, and fails when it does not end well.

A launch completes with a result whatever became of it. This workflow is what Temporal's list of a
schedule's actions shows, so it is red there when the launch failed, was refused or got worse.
"""

from __future__ import annotations

from datetime import datetime

from temporalio import workflow
from temporalio.common import SearchAttributeKey, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, CancelledError, WorkflowAlreadyStartedError
from temporalio.workflow import ChildWorkflowHandle, ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from ..contracts import search_attributes as attributes
    from ..contracts.launch import LaunchResult
    from ..contracts.schedules import (
        MAX_REPETITIONS,
        SCHEDULED_LAUNCH_WORKFLOW,
        ScheduledLaunchInput,
        ScheduledLaunchResult,
        scheduled_launch_id,
        scheduled_spec,
    )
    from ..contracts.workflows import LAUNCH_WORKFLOW, LaunchInput, launch_workflow_id
    from .attributes import launch_details, launch_memo, launch_summary, spec_attributes

_SCHEDULED_TIME = SearchAttributeKey.for_datetime("TemporalScheduledStartTime")
_LAUNCH = SearchAttributeKey.for_keyword(attributes.LAUNCH)
_OUTCOME = SearchAttributeKey.for_keyword(attributes.OUTCOME)
_ERROR_CHARS = 2000

LaunchChild = ChildWorkflowHandle[object, LaunchResult]


@workflow.defn(name=SCHEDULED_LAUNCH_WORKFLOW)
class ScheduledLaunchWorkflow:
    """Open for as long as its launch is, so that the schedule's overlap policy sees it."""

    @workflow.run
    async def run(self, input: ScheduledLaunchInput) -> ScheduledLaunchResult:
        """Returns when the launch completed.

        Raises ``ApplicationError`` whose type is the launch's outcome when it did not.
        """
        launch_id, launch = await self._start(input, scheduled_time())
        workflow.upsert_search_attributes([_LAUNCH.value_set(launch_id)])
        workflow.set_current_details(f"launch `{launch_id}`")
        # When this workflow is cancelled, so is the launch, which cleans up and then has a result.
        result = await launch
        outcome = "refused" if result.refused else result.status
        workflow.upsert_search_attributes([_OUTCOME.value_set(outcome)])
        workflow.set_current_details(f"launch `{launch_id}`: **{outcome}** {result.error}".strip())
        if result.status == "completed":
            comparisons = {item.key: item.comparison for item in result.requests if item.comparison}
            return ScheduledLaunchResult(launch_id=launch_id, status=outcome, comparisons=comparisons)
        if workflow.cancellation_reason() is not None:
            raise CancelledError(f"launch {launch_id} was cancelled")
        reason = f": {result.error}" if result.error else ""
        raise ApplicationError(
            f"launch {launch_id}: {outcome}{reason}"[:_ERROR_CHARS], type=outcome, non_retryable=True
        )

    async def _start(self, input: ScheduledLaunchInput, at: datetime) -> tuple[str, LaunchChild]:
        """A time that is backfilled again gets another launch, with a number behind its id."""
        for repetition in range(1, MAX_REPETITIONS + 1):
            launch_id = scheduled_launch_id(input.schedule, at, repetition)
            spec = scheduled_spec(input, at, repetition)
            try:
                return launch_id, await workflow.start_child_workflow(
                    LAUNCH_WORKFLOW,
                    LaunchInput(launch_id=launch_id, spec=spec, ui_address=input.ui_address),
                    id=launch_workflow_id(launch_id),
                    result_type=LaunchResult,
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                    parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
                    search_attributes=spec_attributes(launch_id, spec),
                    memo=launch_memo(spec),
                    static_summary=launch_summary(spec),
                    static_details=launch_details(spec),
                )
            except WorkflowAlreadyStartedError:
                continue
        raise ApplicationError(
            f"there are {MAX_REPETITIONS} launches of this scheduled time already",
            type="refused",
            non_retryable=True,
        )


def scheduled_time() -> datetime:
    """The time on the schedule, which may lie before the start; for a trigger, when it was triggered."""
    info = workflow.info()
    return info.typed_search_attributes.get(_SCHEDULED_TIME) or info.start_time
