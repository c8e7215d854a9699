"""As much of an HTTP/1.1 server as a model client needs: a request a connection, answers in chunks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")
MAX_HEAD_BYTES = 65_536
MAX_BODY_BYTES = 64 * 1024 * 1024
_SIGN_OF_LIFE = b"HTTP/1.1 102 Processing\r\n\r\n"
_SECOND_SIGN_SECONDS, _SIGNS_SECONDS = 0.1, 15.0
IDLE_SECONDS = 60.0
"""For a client that sends half a request."""


class BadRequestError(Exception):
    """The request cannot be understood; the message is for the client."""


class ClientGoneError(ConnectionError):
    """Whoever asked has hung up."""


@dataclass(frozen=True)
class HttpRequest:
    """A complete request; header names in lower case."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


class Responder:
    """Writes one answer, whole or piece by piece."""

    def __init__(self, writer: asyncio.StreamWriter, gone: asyncio.Future[None]) -> None:
        """``gone`` is done when the client has hung up."""
        self._writer = writer
        self._gone = gone
        self.started = False

    async def while_client_stays(self, work: Coroutine[Any, Any, T]) -> T:
        """What ``work`` returns; it is cancelled, and ``ClientGoneError`` raised, when the client hangs up first."""
        task = asyncio.ensure_future(work)
        try:
            either: set[asyncio.Future[Any]] = {task, self._gone}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientGoneError("the client has hung up")
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return task.result()

    async def start(self, status: int, headers: dict[str, str]) -> None:
        """The head; the body follows in pieces."""
        self.started = True
        lines = [f"HTTP/1.1 {status} {_phrase(status)}", "transfer-encoding: chunked", "connection: close"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace"))
        await self._writer.drain()

    async def write(self, piece: bytes) -> None:
        """A piece of the body."""
        if piece:
            self._writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await self._writer.drain()

    async def end(self) -> None:
        """The body is complete."""
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()

    async def send(self, status: int, body: bytes, content_type: str = "application/json") -> None:
        """A whole answer."""
        await self.start(status, {"content-type": content_type})
        await self.write(body)
        await self.end()


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


Handler = Callable[[HttpRequest, Responder], Awaitable[None]]


async def serve_connection(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler
) -> None:
    """Read one request, answer it, close. What the client does wrong ends its own connection only."""
    leaving: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    responder = Responder(writer, leaving)
    try:
        async with asyncio.timeout(IDLE_SECONDS):
            request = await read_request(reader)
        watching = asyncio.create_task(_tell_end(reader, writer, responder, leaving))
        try:
            await handler(request, responder)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    except (BadRequestError, TimeoutError) as error:
        if not responder.started:
            await responder.send(400, str(error).encode("utf-8", "replace"), "text/plain")
    except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass  # the client went away, or sends no HTTP
    finally:
        writer.close()


async def _tell_end(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    responder: Responder,
    gone: asyncio.Future[None],
) -> None:
    """What else the client sends is left alone: a connection has one request.

    One that has only ended its sending waits for its answer; who is gone refuses what is sent, from the second time on.
    """
    pause = _SECOND_SIGN_SECONDS
    try:
        while await reader.read(MAX_HEAD_BYTES):
            pass
        while not responder.started:
            writer.write(_SIGN_OF_LIFE)
            await writer.drain()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _SIGNS_SECONDS)
        return  # from here on, sending the answer tells
    except ConnectionError:
        pass  # an end, too
    gone.set_result(None)


async def read_request(reader: asyncio.StreamReader) -> HttpRequest:
    """A request with its body. Raises :class:`BadRequestError`."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    words = head[0].split(" ")
    if len(words) != 3:
        raise BadRequestError("not an HTTP request")
    headers = {}
    for line in head[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    target = urlsplit(words[1])
    body = await _body(reader, headers)
    return HttpRequest(words[0], target.path, target.query, headers, body)


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return await _chunks(reader)
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
        raise BadRequestError(f"content-length {length[:20]!r} is not accepted")
    return await reader.readexactly(int(length))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        line = (await reader.readuntil(b"\r\n")).split(b";")[0].strip()
        try:
            size = int(line, 16)
        except ValueError:
            raise BadRequestError("a chunk has no size") from None
        if size < 0 or len(body) + size > MAX_BODY_BYTES:
            raise BadRequestError("the body is too large")
        body += await reader.readexactly(size)
        await reader.readuntil(b"\r\n")
        if size == 0:
            return bytes(body)
