"""How workflows call activities: one place for timeouts, retry policies and failures.

Infrastructure faults (a killed worker, a missed heartbeat, an unreachable disk) are retried by
Temporal under the policies below. A failure with a meaning arrives as a non-retryable
``ApplicationError`` that carries an Issue, and is raised here as :class:`PhaseFailed`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    FailureError,
    TimeoutError,
    TimeoutType,
    is_cancelled_exception,
)
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from pydantic import BaseModel, ValidationError

    from ..contracts.activities import TRIED_TOO_OFTEN, ActivityStub
    from ..contracts.issues import Issue, IssueCode, Severity
    from ..contracts.phases import ISSUE_PHASES, Phase

InputT = TypeVar("InputT", bound=BaseModel)
OutputT = TypeVar("OutputT", bound=BaseModel)
T = TypeVar("T")

BOOKKEEPING = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=30), maximum_attempts=0
)
"""For steps that must happen: tried until the launch's deadline, through a full disk or a restart."""

HOOK = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=30), maximum_attempts=10
)
"""For phases that run extension code: a task that kills its worker ten times is given up."""

CLEANUP = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=5), maximum_attempts=3
)
"""For closing an environment: what three tries do not remove stays, as a WARNING of the result."""

BOOKKEEPING_TIMEOUT = timedelta(minutes=5)
QUICK_HOOK_TIMEOUT = timedelta(minutes=5)
"""For a phase of hooks that are declared quick; ``activities/phase_limit.py`` limits each of them."""
LONGEST_PHASE = timedelta(days=30)
"""The limit of a phase without a budget; heartbeats find dead workers long before."""
_VERIFIER_PATCH = "a verifier that ends every worker leaves an error"


class PhaseFailed(Exception):
    """A phase ended with an issue instead of an outcome; ``beside`` it are those reported before."""

    def __init__(self, issue: Issue, beside: Sequence[Issue] = ()) -> None:
        super().__init__(issue.message)
        self.issue = issue
        self.beside = list(beside)


async def bookkeeping(
    stub: ActivityStub[InputT, OutputT],
    argument: InputT,
    *,
    heartbeat_timeout: timedelta | None = None,
    policy: RetryPolicy = BOOKKEEPING,
    limit: timedelta = BOOKKEEPING_TIMEOUT,
    summary: str | None = None,
) -> OutputT:
    """A step of our own. One that may take long heartbeats, the others are local, with a ``limit``."""
    if heartbeat_timeout is None:
        result: OutputT = await workflow.execute_local_activity(
            stub.name,
            argument,
            result_type=stub.output,
            start_to_close_timeout=limit,
            retry_policy=policy,
            summary=summary,
        )
        return result
    result = await workflow.execute_activity(
        stub.name,
        argument,
        result_type=stub.output,
        start_to_close_timeout=timedelta(hours=1),
        heartbeat_timeout=heartbeat_timeout,
        retry_policy=policy,
        # A step that is given up must not go on writing behind the back of what follows it.
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=summary,
    )
    return result


async def quick_hook(
    stub: ActivityStub[InputT, OutputT],
    argument: InputT,
    phase: Phase,
    *,
    heartbeat_timeout: timedelta,
    patience: timedelta,
    limit: timedelta = QUICK_HOOK_TIMEOUT,
) -> OutputT:
    """A phase whose component declared it quick: executed inside the workflow task.

    One that was begun there several times and took its worker along is executed as :func:`hook` does.
    """
    try:
        return await quick_step(stub, argument, phase, patience=patience, limit=limit)
    except FailureError as error:
        if not tried_too_often(error):
            raise
    return await hook(
        stub,
        argument,
        phase,
        summary=phase.value,
        heartbeat_timeout=heartbeat_timeout,
        patience=patience,
        limit=limit,
    )


async def quick_step(
    stub: ActivityStub[InputT, OutputT],
    argument: InputT,
    phase: Phase,
    *,
    patience: timedelta,
    limit: timedelta = QUICK_HOOK_TIMEOUT,
) -> OutputT:
    """:func:`quick_hook` that raises the ``FailureError`` of :func:`tried_too_often`."""
    running: asyncio.Task[OutputT] = workflow.start_local_activity(
        stub.name,
        argument,
        result_type=stub.output,
        start_to_close_timeout=limit,
        retry_policy=HOOK,
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=phase.value,
    )
    return await _phase_result(running, phase, patience)


async def hook(
    stub: ActivityStub[InputT, OutputT],
    argument: InputT,
    phase: Phase,
    *,
    summary: str,
    heartbeat_timeout: timedelta,
    patience: timedelta,
    limit: timedelta = LONGEST_PHASE,
    total_limit: timedelta | None = None,
    policy: RetryPolicy = HOOK,
    task_queue: str | None = None,
    waiting_limit: timedelta | None = None,
) -> OutputT:
    """A phase of its own activity, heartbeating, on the queue of the environment's host if it has one.

    ``limit`` bounds one try, ``total_limit`` all of them with the waits between them, ``waiting_limit`` how
    long a try may wait for a worker. ``patience`` is how long a cancelled phase may take to stop before it is
    left behind. Raises the ``FailureError`` of :func:`waited_in_vain` when no worker took it within
    ``waiting_limit``; without that, a try that nobody took is a failure of the phase like any other.
    """
    running: asyncio.Task[OutputT] = workflow.start_activity(
        stub.name,
        argument,
        result_type=stub.output,
        task_queue=task_queue,
        start_to_close_timeout=limit,
        schedule_to_close_timeout=total_limit,
        schedule_to_start_timeout=waiting_limit,
        heartbeat_timeout=heartbeat_timeout,
        retry_policy=policy,
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=summary,
    )
    # The server ends what waits for a worker until its ``total_limit`` in the same way.
    return await _phase_result(running, phase, patience, may_be_in_vain=waiting_limit is not None)


def until_cancelled(
    stub: ActivityStub[InputT, OutputT],
    argument: InputT,
    *,
    summary: str,
    heartbeat_timeout: timedelta,
    task_queue: str | None = None,
) -> asyncio.Task[OutputT]:
    """An activity that accompanies what the workflow does; whoever cancels it does not wait for it."""
    started: asyncio.Task[OutputT] = workflow.start_activity(
        stub.name,
        argument,
        result_type=stub.output,
        task_queue=task_queue,
        start_to_close_timeout=LONGEST_PHASE,
        heartbeat_timeout=heartbeat_timeout,
        retry_policy=BOOKKEEPING,
        cancellation_type=ActivityCancellationType.TRY_CANCEL,
        summary=summary,
    )
    started.add_done_callback(_retrieve)
    return started


def _retrieve(task: asyncio.Task[Any]) -> None:
    """How it ended is nobody's business; left alone it would be logged as an error that nobody saw."""
    if not task.cancelled():
        task.exception()


async def _phase_result(
    running: asyncio.Task[OutputT], phase: Phase, patience: timedelta, *, may_be_in_vain: bool = False
) -> OutputT:
    """The outcome of a phase. Cancellation stays cancellation, also when the phase finishes anyway.

    An activity that does not listen (a hook that blocks its thread) would hold up the cleanup for
    ever, and one that completes at the last moment would swallow the cancellation.
    """
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if being_evicted():
            raise
        running.cancel()
        await workflow.wait([running], timeout=patience.total_seconds())
        raise
    except FailureError as error:
        if (may_be_in_vain and waited_in_vain(error)) or tried_too_often(error):
            raise
        raise as_phase_failure(error, phase) from error


def waited_in_vain(error: BaseException) -> bool:
    """True when an activity was given up because no worker took it."""
    cause = error.cause if isinstance(error, ActivityError) else error
    return isinstance(cause, TimeoutError) and cause.type is TimeoutType.SCHEDULE_TO_START


def tried_too_often(error: BaseException) -> bool:
    """True when a quick step is not begun inside a workflow task any more, see ``activities/tries.py``."""
    return isinstance(error, ApplicationError) and error.type == TRIED_TOO_OFTEN


def being_evicted() -> bool:
    """Why a ``CancelledError`` came when nobody cancelled the workflow: the worker's cache drops it.

    The workflow goes on elsewhere or later, so this is no time for cleaning up or waiting.
    """
    return workflow.cancellation_reason() is None


def in_background(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task that an evicted workflow, which may start none, does not leave behind half made."""
    try:
        return asyncio.create_task(work)
    except BaseException:
        work.close()
        raise


def as_phase_failure(error: FailureError, phase: Phase) -> BaseException:
    """The issue inside an activity's failure; cancellation stays cancellation.

    A local activity's failure arrives as it is, any other one wrapped into an ``ActivityError``.
    """
    if is_cancelled_exception(error):
        return CancelledError(f"{phase} was cancelled")
    cause = error.cause if isinstance(error, ActivityError) else error
    if isinstance(cause, ApplicationError) and cause.details:
        try:
            issue, *beside = [Issue.model_validate(detail) for detail in cause.details]
            return PhaseFailed(issue, beside)
        except ValidationError:
            pass  # an ApplicationError of somebody else; described below like any other cause
    crashed = is_verifier_crash(cause, phase) and workflow.patched(_VERIFIER_PATCH)
    return PhaseFailed(
        given_up(cause, phase, root_cause(error), Severity.ERROR if crashed else Severity.FATAL)
    )


def is_verifier_crash(cause: BaseException | None, phase: Phase) -> bool:
    """Whether a phase was given up because its verifier ends every worker, or gets nowhere.

    There is no score then, and nothing says that the agent's work is not to be judged. What our own bookkeeping
    met (a full disk) is no timeout, and says nothing about the verifier.
    """
    return phase is Phase.EVALUATE and isinstance(cause, TimeoutError)


def given_up(cause: BaseException | None, phase: Phase, text: str, severity: Severity) -> Issue:
    """The issue of a phase that ended without one of its own; ``severity`` counts but for a cleanup."""
    code, message = _code_of(cause, phase), f"{phase}: {text}"
    if isinstance(cause, TimeoutError):
        message = f"{message}; its worker died, or did not get on, in every try"
    return Issue(
        severity=Severity.WARNING if phase is Phase.CLOSE_ENVIRONMENT else severity,
        phase=ISSUE_PHASES[phase],
        code=code,
        message=message[:4000],
    )


def _code_of(cause: BaseException | None, phase: Phase) -> IssueCode:
    if phase is Phase.PLAN and cause is not None and exit_code_of(cause) is not None:
        return IssueCode.SETUP_FAILED
    # What is not final was tried as often as the policy allows.
    final = isinstance(cause, ApplicationError) and cause.non_retryable
    return IssueCode.INTERNAL_ERROR if final else IssueCode.WORKER_LOST


def root_cause(error: BaseException) -> str:
    """What happened in the first place; the outer levels say only which activity or child failed."""
    while isinstance(error, FailureError) and error.cause is not None:
        error = error.cause
    return error.message if isinstance(error, FailureError) else str(error) or type(error).__name__


def exit_code_of(error: BaseException) -> int | None:
    """The exit code that a refused request carries, see ``activities/boundary.py``."""
    while isinstance(error, FailureError) and error.cause is not None:
        error = error.cause
    if isinstance(error, ApplicationError) and error.details and isinstance(error.details[0], int):
        return error.details[0]
    return None
