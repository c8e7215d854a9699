"""A session on a sandbox that is reached by single calls."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ....contracts.environment import (
    Command,
    EnvironmentHandle,
    EnvironmentSession,
    ExecResult,
    ProcessStatus,
)
from ..shared.cancellation import finish
from ..shared.own_thread import in_own_thread
from ..shared.scripts import shell_text
from ..shared.variables import checked_variables
from . import files
from .commands import CommandLine, run_to_end
from .limits import RemoteLimits
from .preparation import Prepared
from .processes import DetachedProcess
from .shell import LONGEST_VARIABLE, Shell

T = TypeVar("T")


class RemoteSession(EnvironmentSession):
    """Commands and files; keeps nothing that the sandbox itself does not know."""

    def __init__(
        self,
        handle: EnvironmentHandle,
        shell: Shell,
        limits: RemoteLimits,
        ready: Prepared,
        user: str = "",
    ) -> None:
        """``user`` runs commands that name none; empty for whoever the provider runs commands as."""
        self.handle = handle
        self._shell = shell
        self._limits = limits
        self._workdir = ready.workdir
        self._own_variables = ready.variables
        self._user = user

    @property
    def workdir(self) -> str:
        """The request's, else where the provider starts commands."""
        return self._workdir

    async def exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_seconds: float | None = None,
        stdin: bytes | None = None,
        user: str | None = None,
    ) -> ExecResult:
        """Run a command to its end. A program that does not exist ends with status 127."""
        passing = "" if stdin is None else files.passing_name("in")
        line = await self._line(command, cwd, env, user, passing)
        if stdin is not None:
            await self._in_thread(lambda: self._shell.channel.send(passing, io.BytesIO(stdin)))
        return await run_to_end(self._shell, line, self._limits, timeout_seconds)

    async def start_process(
        self,
        process_id: str,
        command: Command,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
    ) -> ProcessStatus:
        """Start a detached process; its output is in files from the start, its status is recorded."""
        process = DetachedProcess(self._shell, process_id)
        line = await self._line(command, cwd, env, user)
        # A start that went on after its caller was cancelled would outlive whatever ends its processes now.
        return await finish(self._in_thread(lambda: process.start(line, self._limits)))

    async def process_status(self, process_id: str) -> ProcessStatus | None:
        """The state of a detached process, ``None`` when that id was never started."""
        return await self._in_thread(DetachedProcess(self._shell, process_id).status)

    async def read_process_output(
        self, process_id: str, stream: str, offset: int, max_bytes: int = 65536
    ) -> bytes:
        """Bytes of ``stdout`` or ``stderr`` from ``offset``; empty at the end."""
        process = DetachedProcess(self._shell, process_id)
        return await self._in_thread(lambda: process.read(stream, offset, max_bytes))

    async def end_process(self, process_id: str, *, grace_seconds: float = 2.0) -> None:
        """End a detached process and all it started."""
        process = DetachedProcess(self._shell, process_id)
        await finish(self._in_thread(lambda: process.end(grace_seconds)))

    async def end_all_processes(self) -> int:
        """End everything but the provider's own daemon; returns how many there were."""
        tenths = str(round(self._limits.grace_seconds * 10))
        seconds = self._limits.grace_seconds + 30.0
        answer = await finish(self._shell.asked("end_all", tenths, seconds=seconds))
        return answer.numbers()[0]

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """A file's bytes."""
        where = self._path(path)
        return await self._in_thread(lambda: files.read_file(self._shell, where, max_bytes))

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file, making its parent directories."""
        where = self._path(path)
        await self._in_thread(lambda: files.write_file(self._shell, where, data, mode))

    async def upload(self, source: Path, destination: str) -> None:
        """Copy a local file to a path, or merge a local tree into a folder; stops when cancelled."""
        target = self._path(destination)
        await self._copy(lambda stop: files.upload(self._shell, source, target, stop))

    async def download(self, source: str, destination: Path) -> None:
        """Copy a file to a path, or merge a tree into a folder; links that leave it are left out."""
        path = self._path(source)
        await self._copy(lambda stop: files.download(self._shell, path, destination, stop))

    async def endpoint(self, port: int) -> str | None:
        """The provider's address for a port."""
        return await self._in_thread(lambda: self._shell.channel.endpoint(port))

    def _path(self, path: str) -> str:
        return files.absolute(path, self._workdir)

    async def _line(
        self,
        command: Command,
        cwd: str | None,
        env: dict[str, str] | None,
        user: str | None,
        stdin: str = "",
    ) -> CommandLine:
        """The command as its supervisor gets it. Raises ``ValueError`` for what cannot be executed."""
        arguments = command if isinstance(command, str) else list(command)
        if not arguments:
            raise ValueError("the command is empty")
        if any("\0" in argument for argument in ([arguments] if isinstance(arguments, str) else arguments)):
            raise ValueError("a command cannot hold a NUL character")
        variables = checked_variables(self._own_variables | self.variables | (env or {}))
        text = shell_text(arguments)
        if len(text.encode("utf-8", "surrogateescape")) > LONGEST_VARIABLE:
            path = files.passing_name("run")
            script = arguments if isinstance(arguments, str) else text
            data = script.encode("utf-8", "surrogateescape")
            await self._in_thread(lambda: files.write_file(self._shell, path, data, 0o644))
            text = f"exec sh {path}"
        return CommandLine(text, self._path(cwd or "."), variables, user or self._user, stdin)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await in_own_thread(work, f"remote-{self.handle.id}")

    async def _copy(self, work: Callable[[threading.Event], None]) -> None:
        """Copy in a thread. When this is cancelled, the copying has ended before it returns."""
        stop = threading.Event()
        copying = in_own_thread(lambda: work(stop), f"copy-{self.handle.id}")
        try:
            await asyncio.shield(copying)
        except asyncio.CancelledError:
            stop.set()
            await finish(asyncio.wait({copying}))
            raise
