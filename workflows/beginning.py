"""The first step of an attempt: its plan, and all the rest of it when that is quick."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from ..contracts.activities import (
        BEGIN_ATTEMPT,
        CLOSE_ENVIRONMENT,
        AttemptBegun,
        BeginAttemptInput,
        CloseEnvironmentInput,
        ExecutionRef,
        environment_id,
    )
    from ..contracts.environment import EnvironmentHandle
    from ..contracts.workflows import AttemptInput
    from .calls import (
        BOOKKEEPING,
        BOOKKEEPING_TIMEOUT,
        CLEANUP,
        QUICK_HOOK_TIMEOUT,
        being_evicted,
        bookkeeping,
        in_background,
    )
    from .grace import Grace


async def begin(input: AttemptInput, grace: Grace) -> AttemptBegun:
    """Plan the attempt, and execute and save one that is quick as a whole.

    A cancellation that comes when the result is on disk comes too late: what was scored is not thrown
    away. Before that, what an execution may have left open is closed. Raises ``FailureError``.
    """
    running: asyncio.Task[AttemptBegun] = workflow.start_local_activity(
        BEGIN_ATTEMPT.name,
        BeginAttemptInput(ref=input.ref, attempts=input.attempts),
        result_type=BEGIN_ATTEMPT.output,
        start_to_close_timeout=QUICK_HOOK_TIMEOUT + BOOKKEEPING_TIMEOUT,
        retry_policy=BOOKKEEPING,
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary="begin",
    )
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if being_evicted():
            raise
        running.cancel()
        await workflow.wait([running], timeout=grace.patience.total_seconds())
        begun = _result_of(running)
        if begun is not None and begun.outcome is not None:
            return begun
        await workflow.wait([in_background(_close(input))], timeout=grace.left.total_seconds())
        raise


def _result_of(running: asyncio.Task[AttemptBegun]) -> AttemptBegun | None:
    ended = running.done() and not running.cancelled() and running.exception() is None
    return running.result() if ended else None


async def _close(input: AttemptInput) -> None:
    """Nobody said what was opened, if anything was: its id is known, and its plan says where it would be."""
    ref = ExecutionRef(**input.ref.model_dump())
    handle = EnvironmentHandle(provider="", id=environment_id(ref))
    # What is left all the same stays in the ledger, and the next look at the environments removes it.
    with suppress(FailureError):
        await bookkeeping(
            CLOSE_ENVIRONMENT,
            CloseEnvironmentInput(ref=ref, handle=handle),
            policy=CLEANUP,
            limit=timedelta(seconds=input.cleanup_grace_seconds + 10),
            summary="close",
        )
