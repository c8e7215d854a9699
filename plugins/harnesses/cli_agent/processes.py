"""The agent's processes: started under an id that follows from the execution, followed by whoever has it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from ....contracts.environment import EnvironmentSession, ProcessStatus
from ....contracts.errors import StageFailure
from ....contracts.issues import IssuePhase

MAX_OUTPUT_BYTES = 64 * 1024 * 1024
"""Of an agent's output that is read; what comes after is left out."""
TAIL_BYTES = 16_384
INSTALL_FAILED = "cli_agent.install_failed"


async def follow(
    env: EnvironmentSession,
    process_id: str,
    poll_seconds: float,
    look: Callable[[ProcessStatus], Awaitable[None]],
    enough: Callable[[], bool] = lambda: False,
) -> ProcessStatus | None:
    """Wait for the end of a process; ``look`` is called whenever there is more output.

    When there is ``enough``, the process is ended.
    """
    seen = -1
    while True:
        status = await env.process_status(process_id)
        if status is None or not status.running:
            return status
        if enough():
            await env.end_process(process_id)
            return await env.process_status(process_id)
        written = status.stdout_bytes + status.stderr_bytes
        if written != seen:
            seen = written
            await look(status)
        await asyncio.sleep(poll_seconds)


async def read_output(env: EnvironmentSession, process_id: str, stream: str, start: int = 0) -> bytes:
    """A stream from ``start`` on, up to the limit."""
    pieces = bytearray()
    while len(pieces) + start < MAX_OUTPUT_BYTES:
        piece = await env.read_process_output(process_id, stream, start + len(pieces), 1024 * 1024)
        if not piece:
            break
        pieces += piece
    return bytes(pieces)


async def tail_of(env: EnvironmentSession, status: ProcessStatus, stream: str) -> str:
    """The end of a stream as text."""
    total = status.stdout_bytes if stream == "stdout" else status.stderr_bytes
    start = max(0, total - TAIL_BYTES)
    data = await env.read_process_output(status.process_id, stream, start, TAIL_BYTES)
    return data.decode("utf-8", errors="replace")


_INSTALL = """\
set -e
mkdir -p "$AGENT_DIR"
if command -v flock >/dev/null 2>&1; then exec 9>"$AGENT_DIR/.lock"; flock 9; fi
if ! (eval "$AGENT_CHECK") >/dev/null 2>&1; then (eval "$AGENT_INSTALL") fi
eval "$AGENT_CHECK"
"""
"""Attempts that share the directory install one after the other; the second one finds it done."""


async def install(
    env: EnvironmentSession,
    process_id: str,
    *,
    check: str,
    command: str,
    variables: dict[str, str],
    timeout_seconds: float,
    poll_seconds: float,
    progress: Callable[[str], None],
) -> None:
    """Install the agent unless it is there. Raises ``StageFailure`` that shows the end of the output."""
    scripts = {"AGENT_CHECK": check, "AGENT_INSTALL": command}
    await env.start_process(process_id, ["sh", "-c", _INSTALL], env={**variables, **scripts})
    give_up_at = time.monotonic() + timeout_seconds
    progress("installing the agent")
    while True:
        status = await env.process_status(process_id)
        if status is None or not status.running:
            break
        if time.monotonic() > give_up_at:
            await env.end_process(process_id)
            raise _failed(f"it took longer than {timeout_seconds:g} s")
        await asyncio.sleep(min(poll_seconds, 1.0))
    if status is None or status.returncode != 0:
        said = await tail_of(env, status, "stderr") if status else ""
        last = [line.strip() for line in said.splitlines() if line.strip()][-3:]
        code = status.returncode if status else None
        raise _failed(f"status {code}: {' | '.join(last) or 'no message'}")


def _failed(why: str) -> StageFailure:
    return StageFailure.fatal(IssuePhase.SETUP, INSTALL_FAILED, f"the agent could not be installed: {why}")
