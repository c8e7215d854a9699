"""Measures the floor on a running server."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from processes import read_usage
from temporalio.client import Client

from agentcompass.cli.embedded_server import ServerInfo

_WORKER = Path(__file__).with_name("floor_worker.py")


@dataclass(frozen=True)
class FloorRun:
    """One run of the floor."""

    attempts_per_second: float
    worker_cpu_ms: float
    """Per attempt, without the start of the process."""
    server_cpu_ms: float
    worker_peak_mb: float


async def measure_floor(server: ServerInfo, attempts: int, window: int, log: Path) -> FloorRun:
    """Run ``attempts`` empty children and measure from the parent's start to its result."""
    queue = f"floor-{uuid.uuid4().hex[:8]}"
    client = await Client.connect(server.address, namespace=server.namespace)
    command = [sys.executable, str(_WORKER), server.address, server.namespace, queue, str(window)]
    worker = _start(command, log)
    try:
        # The first run finds the worker still importing; it is not the one that counts.
        await _run(client, queue, window, window)
        server_before, worker_before = read_usage(server.pid), read_usage(worker.pid)
        began = time.monotonic()
        await _run(client, queue, attempts, window)
        seconds = time.monotonic() - began
        server_after, worker_after = read_usage(server.pid), read_usage(worker.pid)
    finally:
        worker.terminate()
        worker.wait(timeout=30)
    if not (server_before and worker_before and server_after and worker_after):
        raise RuntimeError(f"the server or the floor's worker ended; see {log}")
    return FloorRun(
        attempts_per_second=attempts / seconds,
        worker_cpu_ms=1000 * (worker_after.cpu_seconds - worker_before.cpu_seconds) / attempts,
        server_cpu_ms=1000 * (server_after.cpu_seconds - server_before.cpu_seconds) / attempts,
        worker_peak_mb=worker_after.peak_mb,
    )


def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=output)


async def _run(client: Client, queue: str, attempts: int, window: int) -> None:
    await client.execute_workflow(
        "FloorParent", args=[attempts, window], id=f"{queue}/{uuid.uuid4().hex[:8]}", task_queue=queue
    )
