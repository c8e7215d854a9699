"""A session on one host_process environment."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from ....contracts.environment import (
    Command,
    EnvironmentLostError,
    EnvironmentSession,
    ExecResult,
    ProcessStatus,
    WorkerAddress,
)
from ..shared.cancellation import finish
from . import files
from .command_line import CommandLine, require_own_user
from .detached import DetachedProcess
from .directory import EnvironmentDirectory
from .execution import Execution, run_to_end
from .leftovers import end_everything
from .membership import Scope
from .packing import pack
from .params import HostProcessParams

P = ParamSpec("P")
T = TypeVar("T")
LOOPBACK = "127.0.0.1"


class HostProcessSession(EnvironmentSession):
    """Commands as the worker's user, in the environment's directory on the worker's machine."""

    def __init__(
        self, directory: EnvironmentDirectory, params: HostProcessParams, variables: dict[str, str]
    ) -> None:
        self.handle = directory.handle
        self._directory = directory
        self._params = params
        self._own_variables = variables

    @property
    def workdir(self) -> str:
        """``work/`` of the environment's directory."""
        return str(self._directory.work)

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
        self._require_alive()
        require_own_user(user)
        execution = Execution.new(self._directory)
        line = await self._line(execution.scope, command, cwd, env)
        with self._lost_when_gone():
            return await run_to_end(
                execution, line, self._params, timeout_seconds=timeout_seconds, stdin=stdin
            )

    async def worker_address(self) -> WorkerAddress:
        """They are on the same machine."""
        return WorkerAddress(host=LOOPBACK, bind=LOOPBACK)

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
        require_own_user(user)
        process = DetachedProcess(self._directory, process_id)
        line = await self._line(process.scope, command, cwd, env)
        # A start that went on after its caller was cancelled would outlive whatever ends its processes now.
        return await finish(self._in_thread(process.start, line, self._params.max_output_bytes))

    async def process_status(self, process_id: str) -> ProcessStatus | None:
        """The state of a detached process, ``None`` when that id was never started."""
        self._require_alive()
        return DetachedProcess(self._directory, process_id).status()

    async def read_process_output(
        self, process_id: str, stream: str, offset: int, max_bytes: int = 65536
    ) -> bytes:
        """Bytes of ``stdout`` or ``stderr`` from ``offset``; empty at the end."""
        process = DetachedProcess(self._directory, process_id)
        return await self._in_thread(process.read, stream, offset, max_bytes)

    async def end_process(self, process_id: str, *, grace_seconds: float = 2.0) -> None:
        """End a detached process and all it started; its exit status is still recorded."""
        await finish(self._in_thread(DetachedProcess(self._directory, process_id).end, grace_seconds))

    async def end_all_processes(self) -> int:
        """End everything that belongs to this environment; returns how many processes were found."""
        return await finish(self._in_thread(end_everything, self._directory, self._params.grace_seconds))

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """A file's bytes; links may lead anywhere inside the environment."""
        return await self._in_thread(files.read_file, self._directory, path, max_bytes)

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file atomically, making its parent directories."""
        await self._in_thread(files.write_file, self._directory, path, data, mode)

    async def upload(self, source: Path, destination: str) -> None:
        """Copy a local file to a path, or merge a local tree into a folder; stops when cancelled."""
        await self._copy(lambda stop: files.upload(self._directory, source, destination, stop))

    async def download(self, source: str, destination: Path) -> None:
        """Copy a file to a path, or merge a tree into a folder; links that leave it are left out."""
        await self._copy(lambda stop: files.download(self._directory, source, destination, stop))

    async def stream_archive(
        self, source: str, *, exclude: Sequence[str] = ()
    ) -> AsyncGenerator[bytes, None]:
        """The file or tree at ``source`` as a tar archive, read without following links."""
        self._require_alive()
        pieces = pack(self._directory, source, exclude)
        try:
            # A piece that is being read is waited for: its thread must not outlive this call.
            while (piece := await finish(asyncio.to_thread(next, pieces, None))) is not None:
                yield piece
        finally:
            pieces.close()

    async def _line(
        self, scope: Scope, command: Command, cwd: str | None, env: dict[str, str] | None
    ) -> CommandLine:
        variables = self._all_variables(env)

        def build() -> CommandLine:
            private = self._params.private()
            return CommandLine.build(
                self._directory, scope, command, cwd=cwd, variables=variables, private=private
            )

        # Not given up half-way: a process table that nobody has recorded would be left.
        return await finish(self._in_thread(build))

    def _all_variables(self, env: dict[str, str] | None) -> dict[str, str]:
        return self._own_variables | self.variables | (env or {})

    async def _copy(self, work: Callable[[threading.Event], None]) -> None:
        """Copy in a thread. When this is cancelled, the copying has ended before it returns."""
        stop = threading.Event()
        copying = asyncio.ensure_future(self._in_thread(work, stop))
        try:
            await asyncio.shield(copying)
        except asyncio.CancelledError:
            stop.set()
            await finish(asyncio.wait({copying}))
            raise

    async def _in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self._require_alive()
        with self._lost_when_gone():
            return await asyncio.to_thread(work, *args, **kwargs)

    @contextmanager
    def _lost_when_gone(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            self._require_alive()  # closed by somebody else meanwhile
            raise

    def _require_alive(self) -> None:
        if not self._directory.alive:
            raise EnvironmentLostError(f"environment {self.handle.id!r} is gone from {self._directory.path}")
