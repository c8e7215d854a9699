"""Runs whose attempts sleep in ``host_process`` sandboxes, and what is left of them."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from command import Bench, living_worker, start, started_launches, wait_for
from processes import lives, started_with

SLEEP_SECONDS = 3600
SANDBOX_VARIABLE = "AGENTCOMPASS_ENVIRONMENT_DIRECTORY"
"""Every process of a sandbox is started with it."""


@dataclass(frozen=True)
class Left:
    """What there is of a launch at one moment."""

    sandbox_processes: int
    folders: int
    """Of environments."""
    own_processes: int
    """The worker and the command that follows the launch."""

    @property
    def sandboxes(self) -> int:
        """Processes and folders."""
        return self.sandbox_processes + self.folders


class SleepingRun:
    """A run in which every attempt has started its command and waits."""

    def __init__(self, bench: Bench, process: subprocess.Popen[bytes], launch_id: str, starts: Path) -> None:
        self._bench = bench
        self._process = process
        self._starts = starts
        self._workers: set[int] = set()
        self.launch_id = launch_id

    def worker(self, after: int | None = None) -> int:
        """The process id of its worker, once that lives and is not ``after``."""

        def look() -> int | None:
            pid = living_worker(self._bench.home)
            return pid if pid != after else None

        pid = wait_for("a living worker", look)
        self._workers.add(pid)
        return pid

    def starts(self) -> dict[str, list[float]]:
        """Unix times at which the command of each task was started."""
        found: dict[str, list[float]] = defaultdict(list)
        for line in self._starts.read_text().splitlines():
            task, _, moment = line.partition(" ")
            found[task].append(float(moment))
        return found

    def wait_for_starts(self, tasks: int, times: int) -> None:
        """Until each of ``tasks`` commands was started ``times`` times."""

        def look() -> bool:
            starts = self.starts().values()
            return sum(len(moments) >= times for moments in starts) >= tasks

        wait_for(f"{tasks} commands to be started {times} times", look)

    def left(self) -> Left:
        """What there is of it now."""
        root = self._bench.home / "environments"
        folders = [path for path in (root / "host_process").glob("*") if path.is_dir()]
        own = sum(lives(pid) for pid in self._workers) + (self._process.poll() is None)
        return Left(len(started_with(SANDBOX_VARIABLE, str(root))), len(folders), own)


def _write_tasks(path: Path, count: int, starts: Path) -> None:
    note = f'date +"$TASK %s.%N" >> {shlex.quote(str(starts))}; sleep {SLEEP_SECONDS}'
    rows = ({"id": f"t{number:03d}", "command": f"TASK=t{number:03d}; {note}"} for number in range(count))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@contextlib.contextmanager
def sleeping_run(
    bench: Bench, attempts: int, *, heartbeat_timeout: float, grace: float
) -> Iterator[SleepingRun]:
    """``attempts`` sandboxes of one launch, all running; the launch is cancelled at the end."""
    wait_for("the worker of the launch before to leave", lambda: not started_launches(bench.home))
    starts = bench.work / "starts.txt"
    starts.write_text("")
    tasks = bench.work / "sleep.jsonl"
    _write_tasks(tasks, attempts, starts)
    config = bench.work / "sleep.json"
    runtime = {"heartbeat_timeout_seconds": heartbeat_timeout, "cleanup_grace_seconds": grace}
    config.write_text(json.dumps({"runtime": runtime}))
    arguments = ["run", "command", "none", "none", "--env", "host_process", "--config", str(config)]
    arguments += ["--benchmark-params", json.dumps({"path": str(tasks)})]
    arguments += ["--task-concurrency", str(attempts), "--results-dir", str(bench.results)]
    process = start(bench, *arguments, "--progress", "plain")
    try:
        [launch_id] = wait_for("a launch", lambda: started_launches(bench.home))
        run = SleepingRun(bench, process, launch_id, starts)
        run.wait_for_starts(attempts, 1)
        run.worker()  # known from now on
        yield run
    finally:
        _end(bench, process)


def _end(bench: Bench, process: subprocess.Popen[bytes]) -> None:
    """Cancel what still runs; a command that does not get over it is killed."""
    for launch_id in started_launches(bench.home):
        if process.poll() is None:
            start(bench, "cancel", launch_id).wait()
    try:
        process.wait(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
