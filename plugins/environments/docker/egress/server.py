"""Serves the listening socket of one sandbox by the policy of that sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from .head import BadRequestError, Head
from .rules import Address, ForbiddenError, Policy, plain_address, plain_name

HEAD_LIMIT = 64 * 1024
HEAD_SECONDS = 60.0
CONNECT_SECONDS = 30.0
MOST_CONNECTIONS = 512
_PIECE = 64 * 1024

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class SandboxProxy:
    """The proxy as one sandbox sees it."""

    def __init__(self, name: str, policy: Policy) -> None:
        self.name = name
        self.policy = policy
        self.since = asyncio.get_running_loop().time()
        self._server: asyncio.base_events.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, listening: socket.socket) -> None:
        """Serve connections that are made inside the sandbox; instead of an earlier socket."""
        await self.stop()
        self._server = await asyncio.start_server(self._accept, sock=listening, limit=HEAD_LIMIT)

    @property
    def listening(self) -> bool:
        """Whether it has a socket inside its sandbox."""
        return self._server is not None

    async def change(self, policy: Policy) -> None:
        """Another policy holds from now on; what the earlier one allowed is cut."""
        self.policy = policy
        await self._cut()

    async def stop(self) -> None:
        """Close the socket and every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._cut()

    async def _cut(self) -> None:
        running = list(self._tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if len(self._tasks) > MOST_CONNECTIONS:
                await _answer(writer, "503 Service Unavailable", "too many connections")
            else:
                await self._serve(reader, writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # one side is gone, or the policy has changed: there is nobody to tell
        finally:
            self._tasks.discard(task)
            await _close(writer)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = Head.parse(await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_SECONDS))
            upstream = await asyncio.wait_for(self._dial(head), CONNECT_SECONDS)
        except (BadRequestError, asyncio.LimitOverrunError) as error:
            await _answer(writer, "400 Bad Request", str(error))
            return
        except ForbiddenError as error:
            print(f"refused {self.name[:12]} {error}", flush=True)
            await _answer(writer, "403 Forbidden", f"network policy: {error}")
            return
        except (TimeoutError, OSError) as error:
            await _answer(writer, "502 Bad Gateway", f"{type(error).__name__}: {error}")
            return
        try:
            if head.tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                upstream[1].write(head.forwarded)
            await _relay((reader, writer), upstream)
        finally:
            await _close(upstream[1])

    async def _dial(self, head: Head) -> Streams:
        failure: Exception = OSError(f"{head.host} has no address")
        for address in await self._addresses(head.host, head.port):
            try:
                return await asyncio.open_connection(str(address), head.port)
            except OSError as error:
                failure = error
        raise failure

    async def _addresses(self, host: str, port: int) -> list[Address]:
        """Where ``host`` is, as far as it may be reached. Raises ``ForbiddenError``."""
        literal = plain_address(host)
        if literal is not None:
            self.policy.require_address(literal, port, of_allowed_name=False)
            return [literal]
        try:
            name = plain_name(host)
        except ValueError as error:
            raise ForbiddenError(str(error)) from None
        self.policy.require_name(name, port)
        loop = asyncio.get_running_loop()
        found = [
            plain_address(str(info[4][0]))
            for info in await loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)
        ]
        allowed: list[Address] = []
        refusal = None
        for address in found:
            try:
                if address is not None and address not in allowed:
                    self.policy.require_address(address, port, of_allowed_name=True)
                    allowed.append(address)
            except ForbiddenError as error:
                refusal = error
        if refusal is not None and not allowed:
            raise refusal
        return allowed


async def _relay(one: Streams, other: Streams) -> None:
    """Pass bytes on in both directions, until both have ended or one breaks."""
    ways = [
        asyncio.ensure_future(_pass_on(one[0], other[1])),
        asyncio.ensure_future(_pass_on(other[0], one[1])),
    ]
    try:
        await asyncio.gather(*ways)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        data = await reader.read(_PIECE)
        if not data:
            break
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


async def _answer(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = (text + "\n").encode("utf-8", "replace")
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode("ascii") + body)
    await writer.drain()


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError, asyncio.CancelledError):
        await writer.wait_closed()
