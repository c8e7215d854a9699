"""The worker of a launch in embedded mode: a process of its own that outlives the command line.

It leaves by itself when its launch is over. Whoever follows the launch restarts it when it dies.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

from ..activities.store.files import find_model, write_json_atomic
from ..contracts.base import Contract
from ..contracts.errors import AgentCompassError, RecordError
from .housekeeping import forget_secrets
from .process_identity import disown, is_same_process, start_marker

MAX_QUICK_DEATHS = 5
QUICK_DEATH_SECONDS = 60.0
_TAIL_BYTES = 2000


class WorkerState(Contract):
    """What is remembered of a launch's worker."""

    launch_id: str
    task_queue: str
    concurrency: int
    address: str
    """Of the server it is connected to; after a change of port it needs to be replaced."""
    pid: int | None = None
    marker: str | None = None


class LaunchWorker:
    """Starts and watches the worker process of one launch."""

    def __init__(self, home: Path, launch_id: str) -> None:
        self._folder = home / "workers"
        self._name = launch_id.replace("/", "_")
        self._launch_id = launch_id
        self._deaths: deque[float] = deque(maxlen=MAX_QUICK_DEATHS)

    @property
    def log_path(self) -> Path:
        """Where the worker's own output goes; the run's log is in the run directory."""
        return self._folder / f"{self._name}.log"

    @property
    def _state_path(self) -> Path:
        return self._folder / f"{self._name}.json"

    def state(self) -> WorkerState | None:
        """What is known of the worker; ``None`` when this home never had one for the launch."""
        try:
            return find_model(self._state_path, WorkerState)
        except RecordError:
            return None  # cut off by a crash: a second worker on the queue does no harm

    def running(self) -> bool:
        """True when the recorded process lives."""
        state = self.state()
        return state is not None and is_same_process(state.pid, state.marker)

    def ensure(self, task_queue: str, concurrency: int, address: str) -> bool:
        """Start a worker unless one runs; True when one was started.

        Raises ``AgentCompassError`` when workers die as fast as they are started.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self._folder / f"{self._name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = self.state()
            if state is not None and is_same_process(state.pid, state.marker):
                if state.address == address:
                    return False
                _terminate(state)
            elif state is not None and state.pid is not None:
                self._count_death()
            self._start(task_queue, concurrency, address)
            return True

    def replace(self, task_queue: str, concurrency: int, address: str) -> None:
        """Drain the worker, if one runs, and start another with this process's environment."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self._folder / f"{self._name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = self.state()
            if state is not None and is_same_process(state.pid, state.marker):
                _terminate(state)
            self._start(task_queue, concurrency, address)

    def _count_death(self) -> None:
        self._deaths.append(time.monotonic())
        if len(self._deaths) == MAX_QUICK_DEATHS and self._deaths[-1] - self._deaths[0] < QUICK_DEATH_SECONDS:
            raise AgentCompassError(
                f"the worker died {MAX_QUICK_DEATHS} times within {QUICK_DEATH_SECONDS:.0f} s; "
                f"the end of {self.log_path}:\n{self.log_tail()}"
            )

    def _start(self, task_queue: str, concurrency: int, address: str) -> None:
        arguments = [sys.executable, "-m", "agentcompass.cli.main", "worker", "--private"]
        arguments += ["--task-queue", task_queue, "--concurrency", str(concurrency)]
        arguments += ["--until-closed", self._launch_id]
        descriptor = os.open(self.log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=descriptor,  # the SDK's core logs to stdout; an undrained pipe stalls it
                stderr=descriptor,
                start_new_session=True,
                cwd="/",
            )
        finally:
            os.close(descriptor)
        disown(process)
        state = WorkerState(
            launch_id=self._launch_id,
            task_queue=task_queue,
            concurrency=concurrency,
            address=address,
            pid=process.pid,
            marker=start_marker(process.pid),
        )
        write_json_atomic(self._state_path, state, durable=False)

    def log_tail(self, size: int = _TAIL_BYTES) -> str:
        """The last ``size`` bytes of the worker's own output."""
        try:
            with self.log_path.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - size))
                return log.read().decode("utf-8", "replace").strip()
        except OSError as error:
            return str(error)

    def forget(self) -> None:
        """Remove what is kept for a launch that is over, its keys included; its log stays."""
        self._state_path.unlink(missing_ok=True)
        self._state_path.with_suffix(".lock").unlink(missing_ok=True)
        forget_secrets(self._folder.parent, self._launch_id)


def _terminate(state: WorkerState) -> None:
    if state.pid is not None:
        os.kill(state.pid, signal.SIGTERM)
