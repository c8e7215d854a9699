"""A session on one container."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import TypeVar

from ....contracts.environment import Command, EnvironmentSession, ExecResult, ProcessStatus, WorkerAddress
from ....contracts.network import NetworkMode, NetworkPolicy
from ..shared.cancellation import finish
from ..shared.packing import Owner
from ..shared.variables import checked_variables
from . import files, scripts
from .archive import ContainerFiles, pieces_of
from .detached import DetachedProcess
from .engine import EngineError
from .execution import CommandLine, run_to_end
from .network import SandboxNetwork
from .params import DockerParams
from .public_network import HOST_NAME, public_network
from .sandbox import Sandbox

T = TypeVar("T")
_OWN_PROCESSES = 2  # the first one, and its sleep
_LOOKS, _LOOK_SECONDS = 20, 0.05
_LONGEST_ARGUMENT = 100_000
"""Bytes of a command above which it goes into a file: the kernel takes no longer argument."""


class DockerSession(EnvironmentSession):
    """Commands and files of a container; keeps nothing that the handle and the engine do not know."""

    def __init__(
        self, sandbox: Sandbox, params: DockerParams, variables: dict[str, str], network: SandboxNetwork
    ) -> None:
        self.handle = sandbox.data.as_handle(sandbox.environment_id)
        self._sandbox = sandbox
        self._params = params
        self._own_variables = variables
        self._network = network

    @property
    def workdir(self) -> str:
        """The request's, else the image's, else ``/workspace``."""
        return self._sandbox.data.workdir

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
        line = await self._line(command, cwd, env, user)
        if stdin is not None:
            path = f"{scripts.EXECUTIONS}/.in-{uuid.uuid4().hex[:16]}"
            await self._sandbox.in_thread(files.write_file, self._files, path, stdin, 0o644, Owner())
            line = CommandLine(line.command, line.cwd, line.variables, line.user, path)
        return await run_to_end(self._sandbox, line, self._params, timeout_seconds)

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
        process = DetachedProcess(self._sandbox, process_id)
        line = await self._line(command, cwd, env, user)
        # A start that went on after its caller was cancelled would outlive whatever ends its processes now.
        return await finish(self._sandbox.in_thread(process.start, line, self._params))

    async def process_status(self, process_id: str) -> ProcessStatus | None:
        """The state of a detached process, ``None`` when that id was never started."""
        return await self._sandbox.in_thread(DetachedProcess(self._sandbox, process_id).status)

    async def read_process_output(
        self, process_id: str, stream: str, offset: int, max_bytes: int = 65536
    ) -> bytes:
        """Bytes of ``stdout`` or ``stderr`` from ``offset``; empty at the end."""
        process = DetachedProcess(self._sandbox, process_id)
        return await self._sandbox.in_thread(process.read, stream, offset, max_bytes)

    async def end_process(self, process_id: str, *, grace_seconds: float = 2.0) -> None:
        """End a detached process and all it started."""
        await self._sandbox.in_thread(DetachedProcess(self._sandbox, process_id).end, grace_seconds)

    async def end_all_processes(self) -> int:
        """End everything but the sandbox's first process; the engine has the last word on what is left."""
        return await finish(self._sandbox.in_thread(self._end_all))

    def _end_all(self) -> int:
        sandbox = self._sandbox
        sandbox.require_alive()
        code, text = sandbox.script("end_all", str(round(self._params.grace_seconds * 10)))
        found = int(text) if code == 0 and text.strip().isdigit() else None
        if found is not None and self._is_empty():
            return found
        # The sandbox is too full of processes for one more, its shell is broken, or it lies: its end and
        # its beginning leave the files and nothing that runs.
        left = len(self._processes() or [])
        sandbox.engine.translated(sandbox.engine.api.restart, sandbox.container, timeout=0)
        self._network.renew()
        return max(found or 0, left - _OWN_PROCESSES)

    def _is_empty(self) -> bool:
        """What the engine sees from outside has the last word; dead processes have a moment to vanish."""
        for _ in range(_LOOKS):
            processes = self._processes()
            if processes is None or len(processes) <= _OWN_PROCESSES:
                return True
            time.sleep(_LOOK_SECONDS)
        return False

    def _processes(self) -> list[object] | None:
        """The processes of the container, ``None`` when the engine's machine has no ``ps`` to tell."""
        try:
            listed = self._sandbox.engine.translated(self._sandbox.engine.api.top, self._sandbox.container)
        except EngineError:
            self._sandbox.require_alive()
            return None
        return list(listed["Processes"])

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """A file's bytes."""
        where = self._path(path)
        return await self._on_files(lambda found: files.read_file(found, where, max_bytes))

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file, making its parent directories; it belongs to the user of commands."""
        where = self._path(path)
        await self._on_files(lambda found: files.write_file(found, where, data, mode, self._sandbox.owner))

    async def upload(self, source: Path, destination: str) -> None:
        """Copy a local file to a path, or merge a local tree into a folder; stops when cancelled."""
        target = self._path(destination)
        await self._copy(lambda stop: files.upload(self._files, source, target, self._sandbox.owner, stop))

    async def download(self, source: str, destination: Path) -> None:
        """Copy a file to a path, or merge a tree into a folder; links that leave it are left out."""
        path = self._path(source)
        await self._copy(lambda stop: files.download(self._files, path, destination, stop))

    async def stream_archive(
        self, source: str, *, exclude: Sequence[str] = ()
    ) -> AsyncGenerator[bytes, None]:
        """The file or tree at ``source`` as a tar archive, which the engine makes; nothing is left out."""
        del exclude
        path = self._path(source)
        response = await self._on_files(lambda found: found.read_archive(path))
        pieces = pieces_of(response)
        try:
            # A piece that is being read is waited for: its thread must not outlive this call.
            while (piece := await finish(self._sandbox.in_thread(next, pieces, None))) is not None:
                yield piece
        finally:
            response.close()

    async def endpoint(self, port: int) -> str | None:
        """The address of a port under which this machine reaches it, while the network is public."""
        address = await self._sandbox.in_thread(self._network.address)
        return f"http://{address}:{port}" if address else None

    async def worker_address(self) -> WorkerAddress | None:
        """The engine's machine, by the name that all sandboxes and the egress proxy have for it."""
        if not self._sandbox.engine.local:
            return None
        network = await self._sandbox.in_thread(public_network, self._sandbox.engine)
        return WorkerAddress(host=HOST_NAME, bind=network.bind_address)

    async def set_network_policy(self, policy: NetworkPolicy) -> None:
        """Switch the network of the living sandbox; connections that the policy forbids are cut."""
        await finish(self._sandbox.in_thread(self._network.switch, policy))

    @property
    def network_mode(self) -> NetworkMode:
        """The mode that holds now."""
        return self._network.mode

    @property
    def _files(self) -> ContainerFiles:
        return self._sandbox.files

    def _path(self, path: str) -> str:
        return files.absolute(path, self.workdir)

    async def _line(
        self, command: Command, cwd: str | None, env: dict[str, str] | None, user: str | None
    ) -> CommandLine:
        """The command as its supervisor gets it. Raises ``ValueError`` for what cannot be executed."""
        arguments = command if isinstance(command, str) else list(command)
        if not arguments:
            raise ValueError("the command is empty")
        if any("\0" in argument for argument in ([arguments] if isinstance(arguments, str) else arguments)):
            raise ValueError("a command cannot hold a NUL character")
        variables = self._network.variables() | self._own_variables | self.variables | (env or {})
        checked_variables(variables)
        text = scripts.shell_text(arguments)
        if len(text.encode("utf-8", "surrogateescape")) > _LONGEST_ARGUMENT:
            path = f"{scripts.EXECUTIONS}/.run-{uuid.uuid4().hex[:16]}"
            script = arguments if isinstance(arguments, str) else text
            data = script.encode("utf-8", "surrogateescape")
            await self._sandbox.in_thread(files.write_file, self._files, path, data, 0o644, Owner())
            text = f"exec sh {path}"
        return CommandLine(text, self._path(cwd or "."), variables, user or self._sandbox.data.user)

    async def _on_files(self, work: Callable[[ContainerFiles], T]) -> T:
        """Do something with files in a thread; what is missing because all is gone is told as that."""

        def run() -> T:
            try:
                return work(self._files)
            except FileNotFoundError:
                self._sandbox.require_alive()  # or it was removed meanwhile
                raise

        return await self._sandbox.in_thread(run)

    async def _copy(self, work: Callable[[threading.Event], None]) -> None:
        """Copy in a thread. When this is cancelled, the copying has ended before it returns."""
        stop = threading.Event()
        copying = asyncio.ensure_future(self._on_files(lambda _: work(stop)))
        try:
            await asyncio.shield(copying)
        except asyncio.CancelledError:
            stop.set()
            await finish(asyncio.wait({copying}))
            raise
