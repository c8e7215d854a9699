"""The beginning of a request: its tasks are loaded and its run directory is reserved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    FailureError,
    TimeoutError,
    is_cancelled_exception,
)

with workflow.unsafe.imports_passed_through():
    from ..contracts.activities import DISCARD_REQUEST, PREPARE_REQUEST, PreparedRequest, PrepareRequestInput
    from ..contracts.workflows import RequestInput, RequestState
    from .calls import bookkeeping, in_background, root_cause
    from .grace import Grace

_DISCARDING = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=5), maximum_attempts=8
)
_DISCARD_LIMIT = timedelta(seconds=10)
"""Of one try: with eight of them, and the waits between them, it is over in two minutes at most."""
_DISCARD_PATCH = "a stopped preparation whose worker died is cleared up"
_BOUND_PATCH = "a stopped preparation is not waited for without end"


async def prepare(
    input: RequestInput, stopping: Callable[[], bool], slots: int, tell: Callable[[str], None]
) -> RequestState | None:
    """Reserve the run; ``None`` when the request was stopped before there was one.

    ``tell`` is called with what stayed behind then. Raises ``FailureError`` when it cannot be prepared.
    """
    argument = PrepareRequestInput(
        launch_id=input.launch_id,
        request_key=input.request_key,
        request_index=input.request_index,
        request_count=input.request_count,
        request=input.request,
        runtime=input.runtime,
        temporal=input.temporal,
    )
    preparing: asyncio.Task[PreparedRequest] = in_background(
        bookkeeping(
            PREPARE_REQUEST,
            argument,
            heartbeat_timeout=timedelta(seconds=input.runtime.heartbeat_timeout_seconds),
            summary="load tasks, reserve the run directory",
        )
    )
    await workflow.wait_condition(lambda: preparing.done() or stopping())
    if not preparing.done():
        preparing.cancel()
        if workflow.patched(_BOUND_PATCH):
            # One that does not listen (it blocks its thread, or its worker) must not outlive the grace.
            await workflow.wait(
                [preparing], timeout=Grace(input.runtime.cleanup_grace_seconds).whole.total_seconds()
            )
            if not preparing.done():
                # However that ends, nobody asks any more.
                preparing.add_done_callback(lambda task: task.cancelled() or task.exception())
                await _discard(argument, tell)
                return None
    try:
        prepared = await preparing
    except (FailureError, asyncio.CancelledError) as error:
        if not stopping():
            raise
        if not is_cancelled_exception(error):
            if not (_was_lost(error) and workflow.patched(_DISCARD_PATCH)):
                raise
            # What is cancelled gets no second try, in which it could clear up after itself.
            await _discard(argument, tell)
        return None
    return RequestState(
        run_dir=prepared.run_dir,
        run_id=prepared.run_id,
        total_tasks=prepared.total_tasks,
        reused_tasks=prepared.reused_tasks,
        parallel_attempts=prepared.parallel_attempts,
        analyzes=prepared.analyzes,
        task_concurrency=slots,
    )


async def _discard(argument: PrepareRequestInput, tell: Callable[[str], None]) -> None:
    """Bounded, because a request that was stopped must end, also while the disk cannot be reached."""
    try:
        await bookkeeping(
            DISCARD_REQUEST,
            argument,
            policy=_DISCARDING,
            limit=_DISCARD_LIMIT,
            summary="remove what a dead worker had reserved",
        )
    except FailureError as error:
        tell(
            "what its worker may have reserved was not removed "
            f"from {argument.runtime.results_dir}: {root_cause(error)}"
        )


def _was_lost(error: BaseException) -> bool:
    """Whether nobody has finished the activity: its worker died, hangs, leaves, or met a fault that would be tried again."""
    cause = error.cause if isinstance(error, ActivityError) else None
    return isinstance(cause, TimeoutError) or (
        isinstance(cause, ApplicationError) and not cause.non_retryable
    )
