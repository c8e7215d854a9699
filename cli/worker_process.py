"""The worker of a launch in embedded mode: a process of its own that outlives the command line.

It leaves by itself when its launch is over. Whoever follows the launch restarts it when it dies. One that dies before
it serves anything will not get any further the next time, which ends the following. One that had served may have been
killed by a task, of which each is given up some time: the next one is started, later and later.
"""

from __future__ import annotations

import contextlib
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
from ..contracts.workflows import launch_workflow_id
from .housekeeping import forget_secrets
from .process_identity import disown, is_same_process, start_marker

MAX_QUICK_DEATHS = 5
"""Of workers that never served anything."""
QUICK_DEATH_SECONDS = 60.0
CALM_SECONDS = 300.0
"""After which a death is forgotten."""
_UNDELAYED_DEATHS = 3
_LONGEST_DELAY_SECONDS = 30.0
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
        self._failed_starts: deque[float] = deque(maxlen=MAX_QUICK_DEATHS)
        self._deaths: deque[float] = deque(maxlen=20)
        """Of workers that had served, as this process has seen them."""
        self._seen_dead: tuple[int | None, str | None] | None = None
        self._start_at = 0.0

    @property
    def log_path(self) -> Path:
        """Where the worker's own output goes; the run's log is in the run directory."""
        return self._folder / f"{self._name}.log"

    @property
    def _state_path(self) -> Path:
        return self._folder / f"{self._name}.json"

    @property
    def _served_path(self) -> Path:
        return self._folder / f"{self._name}.served"

    @property
    def deaths(self) -> int:
        """How often a worker that had served died within the last minutes."""
        return sum(time.monotonic() - at < CALM_SECONDS for at in self._deaths)

    def note_serving(self) -> None:
        """Called by the worker itself, as soon as it takes work."""
        with (
            # The home of somebody who keeps no worker of this launch; or one whose disk is full, which ends nothing.
            contextlib.suppress(OSError),
            self._served_path.open("a", encoding="utf-8") as served,
        ):
            served.write(f"{os.getpid()}\n")

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
        """Start a worker unless one runs, or one that died is to be followed later; True when one was started.

        Raises ``AgentCompassError`` when workers die before they serve anything.
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
                self._note_death(state)
                if time.monotonic() < self._start_at:
                    return False
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

    def _note_death(self, state: WorkerState) -> None:
        now, dead = time.monotonic(), (state.pid, state.marker)
        if dead == self._seen_dead:
            return
        self._seen_dead = dead
        if self._has_served(state):
            self._failed_starts.clear()
            self._deaths.append(now)
            late = self.deaths - _UNDELAYED_DEATHS
            self._start_at = now + min(2.0**late, _LONGEST_DELAY_SECONDS) if late >= 0 else now
            return
        starts = self._failed_starts
        starts.append(now)
        if len(starts) == MAX_QUICK_DEATHS and starts[-1] - starts[0] < QUICK_DEATH_SECONDS:
            raise AgentCompassError(
                f"the worker died {MAX_QUICK_DEATHS} times within {QUICK_DEATH_SECONDS:.0f} s, before it took any work; "
                f"the end of {self.log_path}:\n{self.log_tail()}"
            )

    def _has_served(self, state: WorkerState) -> bool:
        try:
            return str(state.pid) in self._served_path.read_text(encoding="utf-8").split()
        except FileNotFoundError:
            return False

    def _start(self, task_queue: str, concurrency: int, address: str) -> None:
        arguments = [sys.executable, "-m", "agentcompass.cli.main", "worker"]
        if task_queue == launch_workflow_id(self._launch_id):
            # On a queue that others have served, environments may be bound to this host's own one.
            arguments.append("--private")
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
        self._served_path.unlink(missing_ok=True)
        forget_secrets(self._folder.parent, self._launch_id)


def _terminate(state: WorkerState) -> None:
    if state.pid is not None:
        os.kill(state.pid, signal.SIGTERM)
