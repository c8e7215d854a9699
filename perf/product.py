"""Measures ``agentcompass run`` as a user starts it: a command line, its worker, the local server."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from processes import ProcessWatch, read_usage
from temporalio.client import Client

from agentcompass.cli.embedded_server import ServerInfo
from agentcompass.contracts.workflows import attempt_workflow_id, launch_workflow_id

PROGRAM = [sys.executable, "-m", "agentcompass.cli.main"]


@dataclass(frozen=True)
class History:
    """What an attempt leaves in Temporal."""

    attempt_events: int
    attempt_bytes: int
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


def write_questions(path: Path, count: int) -> Path:
    """A data set of ``count`` questions."""
    lines = (
        json.dumps({"id": f"q{number:05d}", "question": f"What is {number} + 1?", "answer": str(number + 1)})
        for number in range(count)
    )
    path.write_text("\n".join(lines) + "\n")
    return path


async def measure_product(
    server: ServerInfo, home: Path, attempts: int, concurrency: int, work: Path
) -> ProductRun:
    """Evaluate ``attempts`` questions with the harness ``nop`` and everything on."""
    questions = write_questions(work / f"questions-{attempts}.jsonl", attempts)
    command = [*PROGRAM, "run", "qa", "nop", "none", "--env", "host_process", "--json", "--progress", "plain"]
    command += ["--benchmark-params", json.dumps({"path": str(questions)})]
    command += ["--task-concurrency", str(concurrency), "--results-dir", str(work / "results")]
    server_before = read_usage(server.pid)
    clock, began = time.time(), time.monotonic()
    with ProcessWatch(lambda: _worker_pid(home)) as worker:
        result, cli = _run(command, home, work / "command.log")
        seconds = time.monotonic() - began
    server_after = read_usage(server.pid)
    if not server_before or not server_after:
        raise RuntimeError("the server ended")
    started, ended = _attempt_times(Path(result["requests"][0]["run_dir"]) / "progress.jsonl")
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
        history=await _history(server, result["launch_id"], result["requests"][0]["key"]),
    )


def _run(command: list[str], home: Path, log: Path) -> tuple[dict[str, Any], resource.struct_rusage]:
    """Run a command to its end; returns the JSON that it prints, and what it used."""
    with log.open("ab") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=_environment(home))
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"agentcompass ended with {process.returncode}; see {log}")
    return json.loads(output), usage


def help_seconds(home: Path) -> float:
    """How long ``agentcompass --help`` takes."""
    began = time.monotonic()
    subprocess.run([*PROGRAM, "--help"], stdout=subprocess.DEVNULL, env=_environment(home), check=True)
    return time.monotonic() - began


def _environment(home: Path) -> dict[str, str]:
    """As after an installation: modules are compiled, whatever this shell says about that."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "AGENTCOMPASS_HOME": str(home), "PYTHONPYCACHEPREFIX": str(home / "pycache")}


def _worker_pid(home: Path) -> int | None:
    """The worker that the command has started; its state file goes when the launch is over."""
    for path in (home / "workers").glob("*.json"):
        try:
            pid: int | None = orjson.loads(path.read_bytes()).get("pid")
        except (FileNotFoundError, orjson.JSONDecodeError):
            continue  # replaced or removed in this moment
        return pid
    return None


def _attempt_times(progress: Path) -> tuple[list[float], list[float]]:
    times: dict[str, list[float]] = {"attempt_started": [], "attempt_finished": []}
    for line in progress.read_bytes().splitlines():
        event = orjson.loads(line)
        if event["event"] in times:
            times[event["event"]].append(event["timestamp"])
    return times["attempt_started"], times["attempt_finished"]


async def _history(server: ServerInfo, launch_id: str, key: str) -> History:
    client = await Client.connect(server.address, namespace=server.namespace)
    request_id = f"{launch_workflow_id(launch_id)}/{key}"
    attempt = await _size(client, attempt_workflow_id(request_id, "q00000", 1))
    request = await _size(client, request_id)
    children = 0
    async for event in client.get_workflow_handle(request_id).fetch_history_events():
        children += event.HasField("child_workflow_execution_started_event_attributes")
    return History(*attempt, request[0] / max(children, 1), request[1] / max(children, 1))


async def _size(client: Client, workflow_id: str) -> tuple[int, int]:
    info = (await client.get_workflow_handle(workflow_id).describe()).raw_description.workflow_execution_info
    return info.history_length, info.history_size_bytes
