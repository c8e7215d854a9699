"""The machine of one sandbox, whose first process is the sandbox's command, and what is executed in it."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
from pathlib import Path

import namespaces

HOME = "/home/modal"
_PIECE = 64 * 1024
_LOOK_SECONDS = 0.01
NSENTER = shutil.which("nsenter") or "/usr/bin/nsenter"


class Machine:
    """Started at once."""

    def __init__(self, folder: Path, command: list[str], tools_of_busybox: bool) -> None:
        folder.mkdir(parents=True)
        self._mark = folder / "up"
        self.tools = str(namespaces.busybox(folder / "bin")) if tools_of_busybox else os.environ["PATH"]
        first = f": >{shlex.quote(str(self._mark))}; exec {shlex.join(command)}"
        self._process = namespaces.start(folder, HOME, ["sh", "-c", first], self.tools)

    async def up(self) -> None:
        """Return when its first process runs. Raises ``RuntimeError`` when it never will."""
        while not self._mark.exists():  # a file appears
            if self._process.poll() is not None:
                raise RuntimeError(f"the sandbox's machine ended with {self._process.returncode}")
            await asyncio.sleep(_LOOK_SECONDS)

    async def ended(self) -> int:
        """Wait for the end of its first process; its status."""
        while (code := self._process.poll()) is None:  # noqa: ASYNC110  # an event of the kernel
            await asyncio.sleep(_LOOK_SECONDS * 5)
        return code

    def end(self) -> None:
        """End it with all that runs in it."""
        self._process.kill()
        self._process.wait()

    def entering(self) -> list[str]:
        """The beginning of a command line that runs inside: beside the first process, not below it."""
        first = namespaces.first_child(self._process.pid)
        if first is None:
            raise RuntimeError("the sandbox's machine has ended")
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return [NSENTER, f"--target={first}", *user, "--mount", "--pid", "--"]


class Execution:
    """One command in a machine: reads what it is given, keeps what it says, knows how it ended."""

    def __init__(self) -> None:
        self.output: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
        self.written = 0
        self.closed = False
        self.changed = asyncio.Condition()
        self.finished: dict[int, bool] = {1: False, 2: False}
        self.code: int | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(
        self, machine: Machine, arguments: list[str], variables: dict[str, str], seconds: int, kept: set[int]
    ) -> None:
        """Start it; streams that are not ``kept`` are lost."""
        inside = f'cd {HOME} && exec "$@"'
        self._process = await asyncio.create_subprocess_exec(
            *machine.entering(),
            "/bin/sh",
            "-c",
            inside,
            "sh",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE if 1 in kept else asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE if 2 in kept else asyncio.subprocess.DEVNULL,
            env=namespaces.variables(HOME) | {"PATH": machine.tools} | variables,
        )
        readers = {1: self._process.stdout, 2: self._process.stderr}
        self._tasks = [asyncio.create_task(self._read(number, reader)) for number, reader in readers.items()]
        self._tasks.append(asyncio.create_task(self._follow(seconds)))

    async def write(self, offset: int, data: bytes, eof: bool) -> None:
        """Feed it. What was written before is not written again. Raises ``ValueError`` for a gap."""
        assert self._process is not None and self._process.stdin is not None
        if offset > self.written:
            raise ValueError(f"offset {offset} is beyond {self.written}")
        fresh = data[self.written - offset :]
        if fresh:
            if self.closed or self.code is not None:
                raise ValueError("stdin is closed")
            self._process.stdin.write(fresh)
            self.written += len(fresh)
            await self._process.stdin.drain()
        if eof and not self.closed:
            self.closed = True
            self._process.stdin.close()

    async def _read(self, number: int, reader: asyncio.StreamReader | None) -> None:
        while reader is not None and (piece := await reader.read(_PIECE)):
            async with self.changed:
                self.output[number] += piece
                self.changed.notify_all()
        async with self.changed:
            self.finished[number] = True
            self.changed.notify_all()

    async def _follow(self, seconds: int) -> None:
        assert self._process is not None
        try:
            async with asyncio.timeout(seconds or None):
                code = await self._process.wait()
        except TimeoutError:
            inner = namespaces.first_child(self._process.pid)
            if inner is not None:
                os.kill(inner, signal.SIGKILL)
            code = await self._process.wait()
        async with self.changed:
            self.code = code
            self.changed.notify_all()
