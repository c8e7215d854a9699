"""Measures how long it takes from ``agentcompass cancel`` until nothing of the launch is left."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from command import Bench, start
from sandboxes import Left, SleepingRun, sleeping_run
from temporalio.client import Client, WorkflowExecutionStatus

from agentcompass.contracts.workflows import launch_workflow_id

_HEARTBEAT_SECONDS = 30.0
_PATIENCE_SECONDS = 30.0
"""Beyond the grace; what is left then counts as left over."""
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class CancelRun:
    """One cancelled launch. Seconds count from the start of ``agentcompass cancel``."""

    attempts: int
    grace_seconds: float
    sandbox_processes: int
    """At the moment of cancelling; more than one an attempt, because each has a shell."""
    over_seconds: float | None
    """Until the launch workflow had ended; ``None`` when it did not."""
    clean_seconds: float | None
    """Until the launch was over, and no process of a sandbox and no folder of one was left."""
    quiet_seconds: float | None
    """Until its worker and the command that followed it had ended, too."""
    left: Left
    """At the end of patience, or of the last of these."""


async def measure_cancel(bench: Bench, attempts: int, grace: float) -> CancelRun:
    """Cancel a launch with ``attempts`` running commands."""
    client = await bench.client()
    with sleeping_run(bench, attempts, heartbeat_timeout=_HEARTBEAT_SECONDS, grace=grace) as run:
        before = run.left()
        if before.folders != attempts or before.sandbox_processes < attempts:
            raise RuntimeError(f"{before} with {attempts} running attempts: nothing would be measured")
        began = time.monotonic()
        cancel = start(bench, "cancel", run.launch_id)
        try:
            return await _watch(client, run, attempts, grace, before.sandbox_processes, began)
        finally:
            cancel.wait()


async def _watch(
    client: Client, run: SleepingRun, attempts: int, grace: float, processes: int, began: float
) -> CancelRun:
    over = clean = quiet = None
    while True:
        if over is None and await _is_over(client, run.launch_id):
            over = time.monotonic() - began
        left = run.left()
        now = time.monotonic() - began
        if clean is None and over is not None and not left.sandboxes:
            clean = now
        if clean is not None and not left.own_processes:
            quiet = now
        if quiet is not None or now > grace + _PATIENCE_SECONDS:
            return CancelRun(attempts, grace, processes, over, clean, quiet, left)
        await asyncio.sleep(_LOOK_SECONDS)


async def _is_over(client: Client, launch_id: str) -> bool:
    description = await client.get_workflow_handle(launch_workflow_id(launch_id)).describe()
    return description.status is not WorkflowExecutionStatus.RUNNING
