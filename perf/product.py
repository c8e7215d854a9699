"""Measures ``agentcompass run`` as a user starts it: a command line, its worker, the local server."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from command import (
    PROGRAM,
    Bench,
    HistorySize,
    attempt_times,
    environment,
    history_size,
    no_op,
    run_json,
    worker_pid,
)
from processes import ProcessWatch, read_usage

from agentcompass.contracts.workflows import attempt_workflow_id, launch_workflow_id


@dataclass(frozen=True)
class History:
    """What a run leaves in Temporal."""

    attempt: HistorySize
    """Of one attempt workflow."""
    request_events: float
    """Events of the request workflow's last run, divided by the attempts that it started."""
    request_bytes: float


@dataclass(frozen=True)
class ProductRun:
    """One ``agentcompass run`` with do-nothing attempts."""

    attempts_per_second: float
    """From the first attempt_started to the last attempt_finished in ``progress.jsonl``."""
    command_seconds: float
    """From the command to its exit, everything included."""
    first_attempt_seconds: float
    """From the command to the first attempt_started event."""
    cli_cpu_ms: float
    """Per attempt, the start of the process included."""
    worker_cpu_ms: float
    server_cpu_ms: float
    cli_peak_mb: float
    worker_peak_mb: float
    server_peak_mb: float
    history: History


async def measure_product(bench: Bench, attempts: int, concurrency: int) -> ProductRun:
    """Evaluate ``attempts`` questions with the harness ``nop`` and everything on."""
    arguments = no_op(bench, attempts, concurrency)
    server_before = read_usage(bench.server.pid)
    clock, began = time.time(), time.monotonic()
    with ProcessWatch(lambda: worker_pid(bench.home)) as worker:
        result, cli = run_json(bench, *arguments)
        seconds = time.monotonic() - began
    server_after = read_usage(bench.server.pid)
    if not server_before or not server_after:
        raise RuntimeError("the server ended")
    started, ended = attempt_times(Path(result["requests"][0]["run_dir"]))
    if len(ended) != attempts:
        raise RuntimeError(f"{len(ended)} of {attempts} attempts finished")
    return ProductRun(
        attempts_per_second=attempts / (max(ended) - min(started)),
        command_seconds=seconds,
        first_attempt_seconds=min(started) - clock,
        cli_cpu_ms=1000 * (cli.ru_utime + cli.ru_stime) / attempts,
        worker_cpu_ms=1000 * worker.usage.cpu_seconds / attempts,
        server_cpu_ms=1000 * (server_after.cpu_seconds - server_before.cpu_seconds) / attempts,
        cli_peak_mb=cli.ru_maxrss / 1024,
        worker_peak_mb=worker.usage.peak_mb,
        server_peak_mb=server_after.peak_mb,
        history=await _history(bench, result["launch_id"], result["requests"][0]["key"]),
    )


def help_seconds(home: Path) -> float:
    """How long ``agentcompass --help`` takes."""
    began = time.monotonic()
    subprocess.run([*PROGRAM, "--help"], stdout=subprocess.DEVNULL, env=environment(home), check=True)
    return time.monotonic() - began


async def _history(bench: Bench, launch_id: str, key: str) -> History:
    client = await bench.client()
    request_id = f"{launch_workflow_id(launch_id)}/{key}"
    attempt = await history_size(client, attempt_workflow_id(request_id, "q00000", 1))
    request = await history_size(client, request_id)
    children = 0
    async for event in client.get_workflow_handle(request_id).fetch_history_events():
        children += event.HasField("child_workflow_execution_started_event_attributes")
    return History(attempt, request.events / max(children, 1), request.bytes / max(children, 1))
