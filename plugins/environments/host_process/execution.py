"""Running one command to its end."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO

from ....contracts.environment import ExecResult
from ..shared.cancellation import finish
from .captured import captured_output, cut, pause_before_check
from .command_line import CommandLine
from .directory import EnvironmentDirectory
from .ending import end_members
from .exit_watch import exit_of
from .membership import Scope
from .params import HostProcessParams
from .process_table import ProcessIdentity, identity_of, is_alive

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as a shell reports them


class _Verdict(Enum):
    ENDED = "ended"
    TIMED_OUT = "timed out"
    TOO_MUCH_OUTPUT = "too much output"


@dataclass(frozen=True)
class Execution:
    """The files of one command below ``proc/``. ``.running`` names its worker, then its leader."""

    directory: EnvironmentDirectory
    name: str

    @classmethod
    def new(cls, directory: EnvironmentDirectory) -> Execution:
        """An execution with a name that no other one has."""
        return cls(directory, f"exec-{uuid.uuid4().hex[:16]}")

    @property
    def stdout(self) -> Path:
        """The complete standard output."""
        return self.directory.proc / f"{self.name}.out"

    @property
    def stderr(self) -> Path:
        """The complete standard error."""
        return self.directory.proc / f"{self.name}.err"

    @property
    def running(self) -> Path:
        """Exists while somebody waits for the command."""
        return self.directory.proc / f"{self.name}.running"

    @property
    def scope(self) -> Scope:
        """The processes of this command; every one writes to its files unless it went elsewhere."""
        lines = self.running.read_text().splitlines() if self.running.exists() else []
        leaders = frozenset(ProcessIdentity.parse(line) for line in lines[1:])
        environment = self.directory
        return Scope(environment.environment_id, environment.path, self.stdout, self.name, leaders)

    @property
    def abandoned(self) -> bool:
        """True when the worker that waited for it is gone."""
        try:
            owner = self.running.read_text().partition("\n")[0]
        except FileNotFoundError:
            return False
        return not is_alive(ProcessIdentity.parse(owner))

    def note_owner(self) -> None:
        """Record this process as the one that waits, before anything is started."""
        self.directory.touch()
        owner = identity_of(os.getpid())
        self.running.write_text(f"{owner}\n")

    def note_leader(self, pid: int) -> None:
        """Record the command's first process, if it has not ended already."""
        leader = identity_of(pid)
        if leader is not None:
            with self.running.open("a") as stream:
                stream.write(f"{leader}\n")


async def run_to_end(
    execution: Execution,
    line: CommandLine,
    params: HostProcessParams,
    *,
    timeout_seconds: float | None,
    stdin: bytes | None,
) -> ExecResult:
    """Run ``line``. However this ends early, nothing that the command started is alive afterwards."""
    begin = time.monotonic()
    execution.note_owner()
    try:
        try:
            process = _spawn(execution, line, stdin)
        except OSError as error:
            return _not_started(execution, line, error, time.monotonic() - begin)
        verdict = await _follow(execution, process, params, timeout_seconds)
    finally:
        execution.running.unlink(missing_ok=True)
    if verdict is _Verdict.TOO_MUCH_OUTPUT:
        cut(execution.stdout, params.max_output_bytes)
        cut(execution.stderr, params.max_output_bytes)
    return ExecResult(
        returncode=None if verdict is _Verdict.TIMED_OUT else process.returncode,
        stdout=captured_output(execution.stdout),
        stderr=captured_output(execution.stderr),
        timed_out=verdict is _Verdict.TIMED_OUT,
        output_limit_exceeded=verdict is _Verdict.TOO_MUCH_OUTPUT,
        seconds=time.monotonic() - begin,
    )


async def _follow(
    execution: Execution,
    process: subprocess.Popen[bytes],
    params: HostProcessParams,
    timeout_seconds: float | None,
) -> _Verdict:
    verdict = None
    try:
        execution.note_leader(process.pid)
        with exit_of(process) as ended:
            verdict = await _first_of(ended, execution, params.max_output_bytes, timeout_seconds)
    finally:
        if verdict is not _Verdict.ENDED:  # cancelled, too
            await finish(asyncio.to_thread(end_members, execution.scope, grace_seconds=params.grace_seconds))
        process.wait()
    return verdict


async def _first_of(
    ended: asyncio.Future[None], execution: Execution, max_bytes: int, timeout_seconds: float | None
) -> _Verdict:
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    paths = (execution.stdout, execution.stderr)
    while (pause := pause_before_check(paths, max_bytes)) is not None:
        if deadline is not None:
            pause = min(pause, max(0.0, deadline - time.monotonic()))
        if (await asyncio.wait({ended}, timeout=pause))[0]:
            return _Verdict.ENDED
        if deadline is not None and time.monotonic() >= deadline:
            return _Verdict.TIMED_OUT
    return _Verdict.TOO_MUCH_OUTPUT


def _spawn(execution: Execution, line: CommandLine, stdin: bytes | None) -> subprocess.Popen[bytes]:
    # Files instead of pipes: nothing blocks, nothing is held in memory, and a process left in the
    # background keeps its output. Appending: what a command truncates by itself leaves no hole.
    with (
        execution.stdout.open("ab") as stdout,
        execution.stderr.open("ab") as stderr,
        _input(execution.directory.proc, stdin) as given,
    ):
        return subprocess.Popen(
            line.arguments,
            cwd=line.folder,
            env=line.variables,
            stdin=given,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            umask=0o022,
        )


def _input(folder: Path, data: bytes | None) -> IO[bytes]:
    if data is None:
        return open(os.devnull, "rb")
    stream = tempfile.TemporaryFile(dir=folder)
    stream.write(data)
    stream.seek(0)
    return stream


def _not_started(execution: Execution, line: CommandLine, error: OSError, seconds: float) -> ExecResult:
    name = error.filename if isinstance(error.filename, str) else line.arguments[0]
    message = f"{name}: {error.strerror}\n"
    with execution.stderr.open("ab") as stream:
        stream.write(message.encode("utf-8", "surrogateescape"))
    return ExecResult(
        returncode=_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE,
        stdout=captured_output(execution.stdout),
        stderr=captured_output(execution.stderr),
        seconds=seconds,
    )


def end_abandoned(directory: EnvironmentDirectory, grace_seconds: float) -> None:
    """End commands whose worker died while it waited for them: nobody will use their output."""
    for marker in directory.proc.glob("exec-*.running"):
        execution = Execution(directory, marker.stem)
        if execution.abandoned:
            end_members(execution.scope, grace_seconds=grace_seconds)
            marker.unlink(missing_ok=True)
