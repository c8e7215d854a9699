"""The real command line, run as a user runs it: a process, its streams, its exit code.

Every test session has a home of its own with one embedded server (see ``tests/conftest.py``).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from warm_start import Process, subprocess_for

PATIENCE_SECONDS = 120.0
"""For things that take a second on an idle machine."""
POLL_SECONDS = 0.02

T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T | None], patience: float = PATIENCE_SECONDS) -> T:
    """What ``look`` returns as soon as that is neither ``None`` nor false.

    A file that vanishes while it is looked at is looked for again.
    """
    give_up_at = time.monotonic() + patience
    while True:
        with contextlib.suppress(FileNotFoundError):
            found = look()
            if found:
                return found
        if time.monotonic() > give_up_at:
            raise AssertionError(f"waited {patience:.0f} s in vain for {what}")
        time.sleep(POLL_SECONDS)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def running_with(text: str) -> list[int]:
    """Living processes with ``text`` in their command line; of those inside of an environment, too."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue  # it ended while we looked
        if text.encode() in line and is_alive(int(folder.name)):
            found.append(int(folder.name))
    return found


def kill_and_wait(pid: int) -> None:
    """``kill -9``, and return when the process is gone."""
    os.kill(pid, signal.SIGKILL)
    wait_for(f"the death of {pid}", lambda: not is_alive(pid))


def processes_of(home: Path) -> list[int]:
    """Living processes of an AgentCompass home, but for its server, which gets no such variable."""
    wanted = f"AGENTCOMPASS_HOME={home}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended while we looked, or is somebody else's
        if wanted in variables and is_alive(int(folder.name)):
            found.append(int(folder.name))
    return found


def end_processes_of(home: Path) -> None:
    """For clean-up after failed tests: workers, and whoever would start them again."""

    def all_ended() -> bool:
        left = processes_of(home)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    wait_for("the end of all workers", all_ended)


@dataclass(frozen=True)
class Ended:
    """A command that ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        """Standard output parsed."""
        return json.loads(self.stdout)

    @property
    def errors(self) -> list[str]:
        """The lines of standard error that say what is wrong."""
        return [line for line in self.stderr.splitlines() if line.startswith("Error:")]

    def expect(self, code: int) -> Ended:
        """Itself, if it ended with ``code``."""
        assert self.code == code, f"exit code {self.code} instead of {code}\n{self.stdout}\n{self.stderr}"
        return self


class Running:
    """A command that was started."""

    def __init__(
        self, process: subprocess.Popen[bytes] | Process, stdout: Path, stderr: Path, home: Path
    ) -> None:
        self._process = process
        self._stdout = stdout
        self._stderr = stderr
        self._home = home

    @property
    def pid(self) -> int:
        """Of the command itself."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True until it has ended."""
        return self._process.poll() is None

    @property
    def stdout(self) -> str:
        """What it has written there so far."""
        return self._stdout.read_text(encoding="utf-8", errors="replace")

    @property
    def stderr(self) -> str:
        """What it has written so far."""
        return self._stderr.read_text(encoding="utf-8", errors="replace")

    @property
    def launch_id(self) -> str:
        """Of the launch that it follows; waits until it has told."""
        pattern = re.compile(r"^Watch \| \S+/workflows/launch%2F(\S+)$", re.MULTILINE)

        def look() -> re.Match[str] | None:
            assert self._process.poll() is None, f"ended with {self._process.returncode}:\n{self.stderr}"
            return pattern.search(self.stderr)

        return wait_for("the address of the launch", look)[1]

    @property
    def worker_pid(self) -> int:
        """Of the living worker of its launch."""
        return wait_for("a living worker", lambda: living_worker(self._home, self.launch_id))

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def terminate(self) -> None:
        """What an init system or a container engine sends."""
        self._process.terminate()

    def kill(self) -> None:
        """``kill -9``; its worker is a process of its own and stays."""
        self._process.kill()
        self._process.wait()

    def wait(self, patience: float = PATIENCE_SECONDS) -> Ended:
        """Return when it has ended."""
        try:
            code = self._process.wait(patience)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"has not ended after {patience:.0f} s:\n{self.stderr}") from None
        return Ended(code, self._stdout.read_text(encoding="utf-8", errors="replace"), self.stderr)

    def end(self) -> None:
        """For clean-up: nothing is left of the command."""
        if self._process.poll() is None:
            self.kill()


def living_worker(home: Path, launch_id: str) -> int | None:
    """The process id of a launch's worker, ``None`` when there is none or it is dead."""
    try:
        state = json.loads((home / "workers" / f"{launch_id}.json").read_bytes())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    pid: int | None = state["pid"]
    return pid if pid is not None and is_alive(pid) else None


class CommandLine:
    """Runs ``agentcompass`` in a folder of its own, on the session's home."""

    def __init__(self, home: Path, folder: Path, env: Mapping[str, str]) -> None:
        self.home = home
        self.folder = folder
        self.env = dict(env)
        self.cold = False
        """Start commands as a shell does, instead of as forks (:mod:`warm_start`)."""
        self._started: list[Running] = []

    @property
    def results(self) -> Path:
        """The results directory."""
        return self.folder / "results"

    @property
    def run_dirs(self) -> list[Path]:
        """The run directories, the oldest first. A run may be changing them meanwhile."""
        found = []
        for folder, below, files in os.walk(self.results):  # unlike glob, passes over what vanishes
            if "run_info.json" in files:
                found.append(Path(folder))
                below.clear()
            below[:] = [name for name in below if not name.startswith(".")]  # a run's own state has one, too
        return sorted(found)

    @property
    def server_pid(self) -> int:
        """Of the embedded server, as it was started last."""
        pid: int = self._server_state["pid"]
        return pid

    @property
    def server_port(self) -> int:
        """Where it listens for Temporal clients."""
        port: int = self._server_state["grpc_port"]
        return port

    @property
    def _server_state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads((self.home / "server" / "state.json").read_bytes())
        return state

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> Running:
        """Start a command; its output goes to files, so that nothing ever waits for a reader."""
        env = {**self.env, **(env or {})}
        number = len(self._started)
        stdout, stderr = self.folder / f"stdout.{number}", self.folder / f"stderr.{number}"
        with stdout.open("wb") as out, stderr.open("wb") as err:
            process = (subprocess if self.cold else subprocess_for(env)).Popen(
                [sys.executable, "-m", "agentcompass.cli.main", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=self.folder,
                env=env,
                start_new_session=True,  # a signal is sent to the command and reaches nothing else
            )
        running = Running(process, stdout, stderr, self.home)
        self._started.append(running)
        return running

    def run(self, *arguments: str, env: Mapping[str, str] | None = None) -> Ended:
        """Run a command to its end."""
        return self.start(*arguments, env=env).wait()

    def end_all(self) -> None:
        """End what was started and still runs."""
        for running in self._started:
            running.end()

    def dataset(self, lines: Sequence[Mapping[str, Any]], name: str = "tasks.jsonl") -> str:
        """Write a JSONL file; returns parameters that name it."""
        file = self.folder / name
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return json.dumps({"path": str(file)})

    def logs(self) -> str:
        """What workers and the server wrote, for the message of a failed test."""
        files = sorted((self.home / "workers").glob("*.log"), key=lambda file: file.stat().st_mtime)
        return "\n".join(file.read_text(errors="replace")[-2000:] for file in files[-2:])
