"""The proxy of one engine: all its sandboxes, and the workers that steer it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
from typing import Any

from . import control
from .rules import Policy
from .server import SandboxProxy

_IDLE_SECONDS = 900.0
_SETTLED_SECONDS = 300.0


class Proxy:
    """All sandboxes of one engine."""

    def __init__(self) -> None:
        self._sandboxes: dict[str, SandboxProxy] = {}
        self._stop = asyncio.Event()
        self._used = asyncio.get_running_loop().time()

    async def run(self) -> None:
        """Serve until told to stop, or until nobody has needed it for a while."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        control.POLICIES.mkdir(parents=True, exist_ok=True)
        control.SOCKET.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as steering:
            steering.bind(str(control.SOCKET))
            steering.listen(64)
            steering.setblocking(False)
            accepting = asyncio.ensure_future(self._accept(steering))
            print("ready", flush=True)
            while not self._stop.is_set():
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), 5)
                if not self._sandboxes and loop.time() - self._used > _IDLE_SECONDS:
                    break
            accepting.cancel()

    async def _accept(self, steering: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        waiting = set()
        while True:
            line, _ = await loop.sock_accept(steering)
            task = asyncio.ensure_future(self._converse(line))
            waiting.add(task)
            task.add_done_callback(waiting.discard)

    async def _converse(self, line: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with line:
            try:
                request, descriptors = await loop.run_in_executor(None, control.take, line)
                value = await self._do(request, descriptors)
            except Exception as error:  # told to whoever asked; the proxy serves others, too
                value = {"error": f"{type(error).__name__}: {error}"}
            with contextlib.suppress(OSError):  # whoever asked is gone
                await loop.run_in_executor(None, control.answer, line, value)

    async def _do(self, request: dict[str, Any], descriptors: list[int]) -> dict[str, Any]:
        now = self._used = asyncio.get_running_loop().time()
        for gone in set(self._sandboxes) - set(request.get("existing") or self._sandboxes):
            # The list was made before it was sent: what came in meanwhile is not on it.
            if now - self._sandboxes[gone].since > _SETTLED_SECONDS:
                await self._forget(gone)
        if request["do"] == "hello":
            return {}
        sandbox = str(request["sandbox"])
        if request["do"] == "forget":
            await self._forget(sandbox)
            return {"listening": False}
        if request.get("policy") is not None:
            Policy.from_json(request["policy"])  # refused before it is kept
            control.store_policy(sandbox, request["policy"])
        proxy = self._sandboxes.get(sandbox) or SandboxProxy(sandbox, self._kept_policy(sandbox))
        await proxy.change(self._kept_policy(sandbox))
        if request["do"] == "listen":
            await proxy.listen(socket.socket(fileno=descriptors[0]))
            self._sandboxes[sandbox] = proxy
        return {"listening": proxy.listening}

    async def _forget(self, sandbox: str) -> None:
        proxy = self._sandboxes.pop(sandbox, None)
        if proxy is not None:
            await proxy.stop()
        control.policy_file(sandbox).unlink(missing_ok=True)

    def _kept_policy(self, sandbox: str) -> Policy:
        try:
            return Policy.from_json(json.loads(control.policy_file(sandbox).read_text(encoding="ascii")))
        except FileNotFoundError:
            return Policy()  # which allows nothing


async def serve() -> None:
    """Run the proxy until it ends itself."""
    await Proxy().run()
