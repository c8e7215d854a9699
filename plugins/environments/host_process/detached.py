"""Detached processes: started once under an id, followed and ended from any process."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel

from ....contracts.environment import ProcessStatus
from ..shared.naming import file_name
from .command_line import CommandLine
from .directory import EnvironmentDirectory
from .ending import end_members, wait_until_gone
from .membership import Scope
from .process_table import ProcessIdentity, is_alive

_SUPERVISOR = Path(__file__).with_name("supervisor.py")
_STREAMS = ("stdout", "stderr")
_STATUS_SECONDS = 2.0
_PREFIX = "process-"


class SupervisorRecord(BaseModel):
    """``record.json``: who looks after the command, and the command's first process."""

    supervisor: str
    command: str | None = None
    started_at: float


class ExitRecord(BaseModel):
    """``status.json``: how the command ended."""

    returncode: int
    output_limit_exceeded: bool = False


class StartFailedError(RuntimeError):
    """The supervisor of a detached process did not start; the message holds what it said."""


@dataclass(frozen=True)
class DetachedProcess:
    """One detached process and its folder ``proc/process-<id>/``."""

    directory: EnvironmentDirectory
    process_id: str

    @property
    def folder(self) -> Path:
        """Where its lock, record, status and output are."""
        return self.directory.proc / f"{_PREFIX}{file_name(self.process_id)}"

    @property
    def scope(self) -> Scope:
        """The processes that it started, its supervisor included."""
        record = self._record()
        written = [record.supervisor, record.command] if record else []
        return Scope(
            self.directory.environment_id,
            self.directory.path,
            self.folder,
            f"{_PREFIX}{self.process_id}",
            frozenset(ProcessIdentity.parse(text) for text in written if text),
        )

    @property
    def supervisor(self) -> ProcessIdentity | None:
        """The supervisor, once it has recorded itself."""
        record = self._record()
        return ProcessIdentity.parse(record.supervisor) if record else None

    def start(self, line: CommandLine, max_output_bytes: int) -> ProcessStatus:
        """Start it unless somebody has done so already. Blocks for some 20 ms.

        The lock passes from the claimer to the supervisor, which keeps it until its record is
        written. If the claimer dies before it has handed over the command, the lock is free and
        there is no record: the next one starts it.
        """
        self.folder.mkdir(mode=0o700, exist_ok=True)
        with (self.folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._record() is None:
                self._spawn(line, max_output_bytes, lock.fileno())
        status = self.status()
        if status is None:
            raise StartFailedError(f"process {self.process_id!r} left no record")
        return status

    def status(self) -> ProcessStatus | None:
        """Running, ended with a status, or vanished without one; ``None`` when never started."""
        record = self._record()
        if record is None:
            return None
        # Looked at first: a supervisor that is gone by now has written all that it will ever write.
        alive = any(is_alive(identity) for identity in self.scope.leaders)
        ended = self._exit()
        return ProcessStatus(
            process_id=self.process_id,
            running=ended is None and alive,
            returncode=ended.returncode if ended else None,
            output_limit_exceeded=ended.output_limit_exceeded if ended else False,
            started_at=record.started_at,
            stdout_bytes=self._size("stdout"),
            stderr_bytes=self._size("stderr"),
        )

    def read(self, stream: str, offset: int, max_bytes: int) -> bytes:
        """Output from ``offset``. Raises ``ValueError``; ``ProcessLookupError`` when never started."""
        if stream not in _STREAMS:
            raise ValueError(f"{stream!r} is not one of {', '.join(_STREAMS)}")
        if offset < 0 or max_bytes < 1:
            raise ValueError(f"cannot read {max_bytes} bytes from {offset}")
        if self._record() is None:
            raise ProcessLookupError(f"no process {self.process_id!r} was started in this environment")
        try:
            with (self.folder / stream).open("rb") as file:
                file.seek(offset)
                return file.read(max_bytes)
        except FileNotFoundError:
            return b""  # recorded, but its output is not open yet

    def end(self, grace_seconds: float) -> None:
        """End it and all it started; the supervisor has time to write the status. Blocks."""
        supervisor = self.supervisor
        if supervisor is None:
            return
        scope = self.scope
        end_members(scope, grace_seconds=grace_seconds, keep=frozenset({supervisor}))
        if not wait_until_gone([supervisor], _STATUS_SECONDS):
            end_members(scope, grace_seconds=0)

    def _spawn(self, line: CommandLine, max_output_bytes: int, lock: int) -> None:
        handed_over = {
            "arguments": line.arguments,
            "folder": str(line.folder),
            "variables": line.variables,
            "max_output_bytes": max_output_bytes,
        }
        own = {"PATH": line.variables["PATH"], "LANG": "C.UTF-8"}
        self.directory.touch()
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SUPERVISOR), str(self.folder), str(lock)],
            env=own | self.scope.markers,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(lock,),
            start_new_session=True,
        )
        # The supervisor leaves its parent at once, so this ends when it says "started" or dies.
        answer, errors = process.communicate(json.dumps(handed_over).encode("ascii"))
        if answer != b"started":
            reason = errors.decode("utf-8", "replace").strip()[-2000:]
            raise StartFailedError(
                f"process {self.process_id!r} was not started: {reason or 'no reason given'}"
            )

    def _record(self) -> SupervisorRecord | None:
        try:
            return SupervisorRecord.model_validate_json((self.folder / "record.json").read_bytes())
        except FileNotFoundError:
            return None

    def _exit(self) -> ExitRecord | None:
        try:
            return ExitRecord.model_validate_json((self.folder / "status.json").read_bytes())
        except FileNotFoundError:
            return None

    def _size(self, stream: str) -> int:
        try:
            return (self.folder / stream).stat().st_size
        except FileNotFoundError:
            return 0


@dataclass(frozen=True)
class RecordedLeaders:
    """Everything in an environment that we started detached, as far as it is recorded."""

    supervisors: frozenset[ProcessIdentity]
    commands: frozenset[ProcessIdentity]


def recorded_processes(directory: EnvironmentDirectory) -> RecordedLeaders:
    """Supervisors and first processes of all detached processes of an environment."""
    supervisors, commands = set(), set()
    for record in _records(directory):
        supervisors.add(ProcessIdentity.parse(record.supervisor))
        if record.command:
            commands.add(ProcessIdentity.parse(record.command))
    return RecordedLeaders(frozenset(supervisors), frozenset(commands))


def _records(directory: EnvironmentDirectory) -> Iterator[SupervisorRecord]:
    for path in directory.proc.glob(f"{_PREFIX}*/record.json"):
        try:
            yield SupervisorRecord.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            continue  # removed meanwhile
