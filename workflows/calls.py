"""How workflows call activities: one place for timeouts, retry policies and failures.

Infrastructure faults (a killed worker, a missed heartbeat, an unreachable disk) are retried by
Temporal under the policies below. A failure with a meaning arrives as a non-retryable
``ApplicationError`` that carries an Issue, and is raised here as :class:`PhaseFailed`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    TimeoutError,
    is_cancelled_exception,
)
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from pydantic import BaseModel, ValidationError

    from ..contracts.activities import ActivityStub
    from ..contracts.issues import Issue, IssueCode, Severity
    from ..contracts.phases import ISSUE_PHASES, Phase

InputT = TypeVar("InputT", bound=BaseModel)
OutputT = TypeVar("OutputT", bound=BaseModel)

BOOKKEEPING = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=30), maximum_attempts=0
)
"""For steps that must happen: tried until the launch's deadline, through a full disk or a restart."""

HOOK = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=30), maximum_attempts=10
)
"""For phases that run extension code: a task that kills its worker ten times is given up."""

BOOKKEEPING_TIMEOUT = timedelta(minutes=5)
QUICK_HOOK_TIMEOUT = timedelta(minutes=2)
LONGEST_PHASE = timedelta(days=30)
"""The limit of a phase without a budget; heartbeats find dead workers long before."""


class PhaseFailed(Exception):
    """A phase ended with an issue instead of an outcome."""

    def __init__(self, issue: Issue) -> None:
        super().__init__(issue.message)
        self.issue = issue


async def bookkeeping(
    stub: ActivityStub[InputT, OutputT],
    argument: InputT,
    *,
    heartbeat_timeout: timedelta | None = None,
    summary: str | None = None,
) -> OutputT:
    """A step of our own. One that may take long heartbeats, the others are local."""
    if heartbeat_timeout is None:
        result: OutputT = await workflow.execute_local_activity(
            stub.name,
            argument,
            result_type=stub.output,
            start_to_close_timeout=BOOKKEEPING_TIMEOUT,
            retry_policy=BOOKKEEPING,
            summary=summary,
        )
        return result
    result = await workflow.execute_activity(
        stub.name,
        argument,
        result_type=stub.output,
        start_to_close_timeout=timedelta(hours=1),
        heartbeat_timeout=heartbeat_timeout,
        retry_policy=BOOKKEEPING,
        summary=summary,
    )
    return result


async def quick_hook(stub: ActivityStub[InputT, OutputT], argument: InputT, phase: Phase) -> OutputT:
    """A phase whose component declared it quick: executed inside the workflow task."""
    try:
        result: OutputT = await workflow.execute_local_activity(
            stub.name,
            argument,
            result_type=stub.output,
            start_to_close_timeout=QUICK_HOOK_TIMEOUT,
            retry_policy=HOOK,
            summary=phase.value,
        )
        return result
    except ActivityError as error:
        raise as_phase_failure(error, phase) from error


async def hook(
    stub: ActivityStub[InputT, OutputT],
    argument: InputT,
    phase: Phase,
    *,
    summary: str,
    heartbeat_timeout: timedelta,
    limit: timedelta = LONGEST_PHASE,
    task_queue: str | None = None,
) -> OutputT:
    """A phase of its own activity, heartbeating, on the queue of the environment's host if it has one."""
    try:
        result: OutputT = await workflow.execute_activity(
            stub.name,
            argument,
            result_type=stub.output,
            task_queue=task_queue,
            start_to_close_timeout=limit,
            heartbeat_timeout=heartbeat_timeout,
            retry_policy=HOOK,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=summary,
        )
        return result
    except ActivityError as error:
        raise as_phase_failure(error, phase) from error


def as_phase_failure(error: ActivityError, phase: Phase) -> BaseException:
    """The issue inside an activity's failure; cancellation stays cancellation."""
    if is_cancelled_exception(error):
        return CancelledError(f"{phase} was cancelled")
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.details:
        try:
            return PhaseFailed(Issue.model_validate(cause.details[0]))
        except ValidationError:
            pass  # an ApplicationError of somebody else; described below like any other cause
    lost = isinstance(cause, TimeoutError)
    return PhaseFailed(
        Issue(
            severity=Severity.WARNING if phase is Phase.CLOSE_ENVIRONMENT else Severity.FATAL,
            phase=ISSUE_PHASES[phase],
            code=IssueCode.WORKER_LOST if lost else IssueCode.INTERNAL_ERROR,
            message=f"{phase}: {cause or error}"[:4000],
        )
    )
