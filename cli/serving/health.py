"""Tells a container platform whether a worker is alive, and whether it takes work.

``/healthz`` answers for as long as the process's event loop turns. ``/readyz`` answers 200 while the worker
serves its queue and Temporal has answered lately, else 503. A worker that lost its server is not
ready, and alive: starting it again would not bring the server back.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Literal

from temporalio.client import Client
from temporalio.service import RPCError

from ...contracts.errors import ServiceUnreachableError
from .addresses import ListenAddress

LOOK_SECONDS = 5.0
STALE_SECONDS = 30.0
"""How long Temporal may be silent before the worker is not ready."""
_REQUEST_SECONDS = 5.0
_MAX_LINE = 4096

WorkerPhase = Literal["starting", "serving", "draining"]


class Health:
    """The state of one worker process."""

    def __init__(self, task_queue: str, version: str) -> None:
        self.phase: WorkerPhase = "starting"
        self._task_queue = task_queue
        self._version = version
        self._answered_at = float("-inf")

    @property
    def ready(self) -> bool:
        """Whether the worker takes work."""
        return self.phase == "serving" and time.monotonic() - self._answered_at < STALE_SECONDS

    async def watch(self, client: Client) -> None:
        """Ask Temporal every few seconds, until cancelled."""
        while True:
            # Whatever is wrong shows as an answer that is missing.
            with contextlib.suppress(RPCError, TimeoutError):
                await client.service_client.check_health(timeout=timedelta(seconds=LOOK_SECONDS))
                self._answered_at = time.monotonic()
            await asyncio.sleep(LOOK_SECONDS)

    def document(self) -> dict[str, object]:
        """What ``/readyz`` says."""
        return {
            "ready": self.ready,
            "phase": self.phase,
            "temporal_answers": time.monotonic() - self._answered_at < STALE_SECONDS,
            "task_queue": self._task_queue,
            "version": self._version,
        }


@contextlib.asynccontextmanager
async def serving_health(
    health: Health, client: Client, address: ListenAddress | None
) -> AsyncIterator[None]:
    """Serve while the block runs; nothing without an address. Raises ``ServiceUnreachableError``."""
    if address is None:
        yield
        return

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _answer(health, reader, writer)

    try:
        server = await asyncio.start_server(accept, address.host, address.port, limit=_MAX_LINE)
    except OSError as error:
        raise ServiceUnreachableError(f"cannot listen on {address.text}: {error.strerror or error}") from None
    watching = asyncio.create_task(health.watch(client))
    try:
        async with server:
            yield
    finally:
        watching.cancel()


async def _answer(health: Health, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request a connection; whoever sends something else is cut off."""
    with contextlib.closing(writer), contextlib.suppress(OSError, ValueError, TimeoutError):
        async with asyncio.timeout(_REQUEST_SECONDS):
            words = (await reader.readline()).split()  # ValueError: the line is too long
            path = words[1].decode("latin-1") if len(words) == 3 and words[0] in (b"GET", b"HEAD") else ""
            status, body = _page(health, path)
            head = (
                f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode() + (b"" if words[:1] == [b"HEAD"] else body))
            await writer.drain()


def _page(health: Health, path: str) -> tuple[str, bytes]:
    if path == "/healthz":
        return "200 OK", b'{"alive": true}\n'
    if path == "/readyz":
        status = "200 OK" if health.ready else "503 Service Unavailable"
        return status, json.dumps(health.document()).encode() + b"\n"
    return "404 Not Found", b'{"error": "there are /healthz and /readyz"}\n'
