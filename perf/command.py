"""``agentcompass`` as a user starts it: commands, the workers behind them, what they leave in Temporal."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson
from processes import lives
from temporalio.client import Client

from agentcompass.cli.embedded_server import ServerInfo

PROGRAM = [sys.executable, "-m", "agentcompass.cli.main"]
POLL_SECONDS = 0.05
PATIENCE_SECONDS = 300.0
"""For what is not measured; a busy machine may take long."""

T = TypeVar("T")


@dataclass(frozen=True)
class Bench:
    """Where the commands of a session run."""

    server: ServerInfo
    home: Path
    work: Path
    """For data sets, results and logs."""

    @property
    def log(self) -> Path:
        """What commands write to standard error."""
        return self.work / "command.log"

    @property
    def results(self) -> Path:
        """The results directory of all runs."""
        return self.work / "results"

    async def client(self) -> Client:
        """A client of the server that the commands use."""
        return await Client.connect(self.server.address, namespace=self.server.namespace)


def environment(home: Path) -> dict[str, str]:
    """As after an installation: modules are compiled, whatever this shell says about that."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "AGENTCOMPASS_HOME": str(home), "PYTHONPYCACHEPREFIX": str(home / "pycache")}


def run_json(bench: Bench, *arguments: str) -> tuple[Any, resource.struct_rusage]:
    """Run a command to its end; returns the JSON that it prints, and what it used."""
    with bench.log.open("ab") as errors:
        process = subprocess.Popen(
            [*PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=errors, env=environment(bench.home)
        )
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"agentcompass ended with {process.returncode}; see {bench.log} (--keep)")
    return json.loads(output), usage


def start(bench: Bench, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a command that goes on while something else is done."""
    with bench.log.open("ab") as errors:
        return subprocess.Popen(
            [*PROGRAM, *arguments], stdout=subprocess.DEVNULL, stderr=errors, env=environment(bench.home)
        )


def write_questions(path: Path, count: int) -> Path:
    """A data set of ``count`` questions for the benchmark ``qa``."""
    lines = (
        json.dumps({"id": f"q{number:05d}", "question": f"What is {number} + 1?", "answer": str(number + 1)})
        for number in range(count)
    )
    path.write_text("\n".join(lines) + "\n")
    return path


def no_op(bench: Bench, attempts: int, concurrency: int) -> list[str]:
    """The arguments of a run of attempts that do nothing, with everything on."""
    questions = write_questions(bench.work / f"questions-{attempts}.jsonl", attempts)
    arguments = ["run", "qa", "nop", "none", "--env", "host_process", "--json", "--progress", "plain"]
    arguments += ["--benchmark-params", json.dumps({"path": str(questions)})]
    return [*arguments, "--task-concurrency", str(concurrency), "--results-dir", str(bench.results)]


def started_launches(home: Path) -> list[str]:
    """Ids of launches that have a worker now; its state file goes when the launch is over."""
    return [path.stem for path in (home / "workers").glob("*.json")]


def worker_pid(home: Path) -> int | None:
    """The worker of the only launch that runs."""
    for path in (home / "workers").glob("*.json"):
        try:
            pid: int | None = orjson.loads(path.read_bytes()).get("pid")
        except (FileNotFoundError, orjson.JSONDecodeError):
            continue  # replaced or removed in this moment
        return pid
    return None


def living_worker(home: Path) -> int | None:
    """The same, ``None`` when it is dead."""
    pid = worker_pid(home)
    return pid if pid is not None and lives(pid) else None


def wait_for(what: str, look: Callable[[], T | None], patience: float = PATIENCE_SECONDS) -> T:
    """What ``look`` returns as soon as that is neither ``None`` nor false."""
    give_up_at = time.monotonic() + patience
    while not (found := look()):
        if time.monotonic() > give_up_at:
            raise RuntimeError(f"waited {patience:.0f} s in vain for {what}")
        time.sleep(POLL_SECONDS)
    return found


@dataclass(frozen=True)
class HistorySize:
    """What a workflow leaves in Temporal."""

    events: int
    bytes: int


async def history_size(client: Client, workflow_id: str, run_id: str | None = None) -> HistorySize:
    """Of one run of a workflow, by default the last one."""
    description = await client.get_workflow_handle(workflow_id, run_id=run_id).describe()
    info = description.raw_description.workflow_execution_info
    return HistorySize(info.history_length, info.history_size_bytes)


async def workflow_seconds(client: Client, workflow_id: str) -> float:
    """From the start of a workflow that is over to its end."""
    description = await client.get_workflow_handle(workflow_id).describe()
    if description.close_time is None:
        raise RuntimeError(f"{workflow_id} still runs")
    return (description.close_time - description.start_time).total_seconds()


def attempt_times(run_dir: Path) -> tuple[list[float], list[float]]:
    """Unix times at which the attempts of a run started and finished."""
    times: dict[str, list[float]] = {"attempt_started": [], "attempt_finished": []}
    for line in (run_dir / "progress.jsonl").read_bytes().splitlines():
        event = orjson.loads(line)
        if event["event"] in times:
            times[event["event"]].append(event["timestamp"])
    return times["attempt_started"], times["attempt_finished"]
