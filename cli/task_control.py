"""What an operator does to a single attempt: find it, read its steps, end it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from temporalio.client import (
    Client,
    RPCTimeoutOrCancelledError,
    WorkflowUpdateFailedError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from ..contracts.errors import ServiceUnreachableError, UsageError
from ..contracts.workflows import END_UPDATE, EndAttempt, EndedPhase
from . import launcher
from .attempts import KnownAttempt, Wanted, choose_attempt, find_attempts, input_of

ANSWER_TIMEOUT = timedelta(seconds=30)
"""How long a worker may take to note down that an attempt is to be ended."""


@dataclass(frozen=True)
class Ending:
    """An attempt that is being ended, and what it was doing."""

    attempt: KnownAttempt
    phase: str


@dataclass(frozen=True)
class Located:
    """The attempt that is meant, where it lies, and how many others could be: in other launches and requests."""

    run_dir: Path
    attempt: KnownAttempt
    other_launches: int
    other_requests: int
    """Of the same launch."""


async def locate(wanted: Wanted) -> Located:
    """The attempt that is meant: the one that runs, else the last."""
    client = (await launcher.open_connection()).client
    found = await find_attempts(client, wanted)
    if not found:
        where = f"launch {wanted.launch_id}" if wanted.launch_id else "any launch that the server knows"
        raise UsageError(f"{wanted} was not started in {where}; give its run directory with --run-dir")
    known = choose_attempt(found, wanted)
    launches = {item.launch_id for item in found}
    requests = {item.request_key for item in found if item.launch_id == known.launch_id}
    run_dir = Path((await input_of(client, known)).ref.run_dir)
    return Located(run_dir, known, len(launches) - 1, len(requests) - 1)


async def end_attempt(wanted: Wanted, reason: str) -> Ending:
    """End the phase of a running attempt. Raises ``UsageError`` when there is nothing that could be ended."""
    client = (await launcher.open_connection()).client
    known = choose_attempt(await find_attempts(client, wanted), wanted, running=True)
    # Its worker may be gone; the decision is taken by the workflow, which needs one.
    (await launcher.attach(known.launch_id)).ensure_worker()
    ended = await _ask(client, known, EndAttempt(reason=" ".join(reason.split())[:500]))
    return Ending(known, ended.phase)


async def _ask(client: Client, known: KnownAttempt, request: EndAttempt) -> EndedPhase:
    handle = client.get_workflow_handle(known.workflow_id)
    try:
        ended: EndedPhase = await handle.execute_update(
            END_UPDATE, request, result_type=EndedPhase, rpc_timeout=ANSWER_TIMEOUT
        )
        return ended
    except WorkflowUpdateFailedError as error:
        cause = error.cause
        told = cause.message if isinstance(cause, ApplicationError) else str(cause or error)
        raise UsageError(f"{known.name} cannot be ended now: {told}") from None
    except RPCTimeoutOrCancelledError:
        raise ServiceUnreachableError(
            f"no worker has answered for {ANSWER_TIMEOUT.seconds} s; "
            f"{known.name} is ended as soon as one does (agentcompass attach {known.launch_id})"
        ) from None
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        raise UsageError(f"{known.name} is over already") from None
