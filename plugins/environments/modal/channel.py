"""The channel to one sandbox: commands that are run in it, with their standard input and output.

A command comes as a script on the standard input of a shell: Modal bounds what fits into arguments, and does not
say how much fits into variables.
"""

from __future__ import annotations

import asyncio
import io
import math
import shlex
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from ....contracts.errors import ServiceUnreachableError
from .api import ModalApi, ModalError, translated
from .creation import living
from .records import Facts

if TYPE_CHECKING:
    from modal.container_process import ContainerProcess

T = TypeVar("T")
_PIECE = 1024**2
_SPARE_SECONDS = 15.0
_COPY_SECONDS = 3600
_ABSENT = 44
_RUN = 'exec 2>&1; eval "$(cat)"'
_SEND = 'exec cat >"$1"'
_RECEIVE = f'[ -e "$1" ] || exit {_ABSENT}; exec cat "$1"'


@dataclass(frozen=True)
class ModalChannel:
    """Implements :class:`~..remote.Channel`."""

    api: ModalApi
    facts: Facts
    ports: tuple[int, ...] = ()
    """Those that the sandbox was made with."""

    @property
    def environment_id(self) -> str:
        """Whose sandbox it is."""
        return self.facts.environment_id

    def execute(self, command: str, variables: Mapping[str, str], seconds: float) -> tuple[int, str]:
        """Run a line of shell; its status and output."""
        script = _script(command, variables)

        async def execute() -> tuple[int, str]:
            process = await self._exec(_RUN, seconds=math.ceil(seconds))
            code, output, _ = await asyncio.gather(
                process.wait.aio(), process.stdout.read.aio(), self._feed(process, io.BytesIO(script))
            )
            return code, output.decode("utf-8", "replace")

        return asyncio.run(self._call(execute, seconds=seconds + _SPARE_SECONDS))

    def send(self, path: str, content: BinaryIO) -> None:
        """Make a file; streamed."""

        async def send() -> None:
            content.seek(0)
            process = await self._exec(_SEND, path, seconds=_COPY_SECONDS)
            failure: Exception | None = None
            try:
                await self._feed(process, content)
            except Exception as error:  # told below, unless the command says why it has stopped reading
                failure = error
            try:
                async with asyncio.timeout(self.api.timeout_seconds):
                    code, said = await asyncio.gather(process.wait.aio(), process.stderr.read.aio())
            except TimeoutError as error:
                raise failure or error from error
            if failure is not None and not code:
                raise failure
            if code:
                raise OSError(f"{path} cannot be written: {_line(said) or f'status {code}'}")

        asyncio.run(self._call(send, seconds=_COPY_SECONDS))

    @contextmanager
    def receive(self, path: str) -> Iterator[Iterator[bytes]]:
        """A file; streamed. Raises ``FileNotFoundError`` when it is read."""
        with asyncio.Runner() as runner:
            process = runner.run(self._call(lambda: self._exec(_RECEIVE, path, seconds=_COPY_SECONDS)))
            yield self._pieces(runner, process, path)

    def endpoint(self, port: int) -> str | None:
        """The address of Modal's tunnel to a port that was named when the sandbox was made."""
        if port not in self.ports:
            return None
        tunnels = asyncio.run(self._call(lambda: self.facts.sandbox.tunnels.aio()))
        tunnel = tunnels.get(port)
        return str(tunnel.url) if tunnel is not None else None

    def _pieces(self, runner: asyncio.Runner, process: ContainerProcess[bytes], path: str) -> Iterator[bytes]:
        stream = aiter(process.stdout)

        async def following() -> bytes | None:
            async with asyncio.timeout(self.api.timeout_seconds):
                return await anext(stream, None)

        async def ending() -> tuple[int, bytes]:
            async with asyncio.timeout(self.api.timeout_seconds):
                code, said = await asyncio.gather(process.wait.aio(), process.stderr.read.aio())
            return code, said

        while (piece := runner.run(self._told(following()))) is not None:
            yield piece
        code, said = runner.run(self._told(ending()))
        if code == _ABSENT:
            raise FileNotFoundError(f"{path} does not exist in the environment")
        if code:
            raise OSError(f"{path} cannot be read: {_line(said) or f'status {code}'}")

    async def _exec(self, script: str, *arguments: str, seconds: int) -> ContainerProcess[bytes]:
        process: ContainerProcess[bytes] = await self.facts.sandbox.exec.aio(
            "sh", "-c", script, "sh", *arguments, text=False, timeout=seconds
        )
        return process

    async def _feed(self, process: ContainerProcess[bytes], content: BinaryIO) -> None:
        """The standard input of a command, and its end."""
        while piece := content.read(_PIECE):
            process.stdin.write(piece)
            async with asyncio.timeout(self.api.timeout_seconds):
                await process.stdin.drain.aio()
        process.stdin.write_eof()
        await process.stdin.drain.aio()

    async def _call(self, work: Callable[[], Awaitable[T]], *, seconds: float | None = None) -> T:
        """A call to the sandbox; what fails because all is gone is told as that."""
        try:
            return await self.api.call(work, seconds=seconds)
        except (ModalError, ServiceUnreachableError) as error:
            raise await self._meant(error) from error

    async def _told(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for a part of a transfer, which cannot be repeated."""
        try:
            return await work
        except TimeoutError as error:
            raise await self._meant(ServiceUnreachableError("Modal does not answer")) from error
        except Exception as error:  # of the SDK; what is not is raised again
            meant = translated(error)
            if meant is None:
                raise
            raise await self._meant(meant) from error

    async def _meant(self, error: Exception) -> Exception:
        """``error`` in a word that callers know. Raises ``EnvironmentLostError`` when the sandbox is gone."""
        await living(self.api, self.environment_id, self.facts.sandbox_id)
        if isinstance(error, ModalError):
            return OSError(f"environment {self.environment_id!r}: {error}")
        return error


def _script(command: str, variables: Mapping[str, str]) -> bytes:
    """A command with its variables, between braces: what arrives in part is not run.

    ``env`` sets them, since shells refuse some, such as ``UID``.
    """
    words = shlex.join(
        ["env", *(f"{name}={value}" for name, value in variables.items()), "sh", "-c", command]
    )
    return f"{{\nexec {words}\n}}\n".encode("utf-8", "surrogateescape")


def _line(said: bytes) -> str:
    return said.decode("utf-8", "replace").strip()[-300:]
