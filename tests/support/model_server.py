"""A scripted model endpoint on loopback that speaks openai-chat, openai-responses and anthropic.

In a test::

    async with ModelServer() as server:
        server.script("2 + 2", Reply("4"))            # prompts that contain "2 + 2"
        server.script("", Reply(status=503), Reply("ok"))  # all others: first 503, then always "ok"
        ... ModelSpec(id="m", base_url=server.base_url) ...
        assert server.counts["task-7"] == 1

As a process, for tests that kill things: ``python tests/support/model_server.py --port 0
--script script.json --call-log calls.jsonl`` prints ``listening on http://127.0.0.1:PORT/v1``.
``script.json`` is ``{"rules": [{"contains": "2 + 2", "replies": [{"content": "4"}]}]}`` with the
fields of :class:`Reply`. ``GET /_control/counts`` and ``/_control/calls`` tell what came in,
``POST /_control/script`` adds rules, ``POST /_control/release`` lets hanging requests go.

A call's task is the text of ``[task: …]`` in its prompt, else the last message itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import socket
import struct
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from model_answers import ANSWERS, Reply, error_body
from model_stream import stream_of

TASK_PATTERN = r"\[task:\s*([^\]]+?)\s*\]"


@dataclass
class Rule:
    """Replies for prompts that contain a text, in order; the last one is repeated."""

    contains: str
    replies: list[Reply]
    used: int = 0

    def next(self) -> Reply:
        """The reply for one more call."""
        reply = self.replies[min(self.used, len(self.replies) - 1)]
        self.used += 1
        return reply


@dataclass(frozen=True)
class Call:
    """A request as it came in; header names in lower case."""

    path: str
    task: str
    prompt: str
    body: dict[str, Any]
    headers: dict[str, str]
    at: float


class ModelServer:
    """See the module's docstring. With an ``api_key``, other keys get a 401 that repeats them."""

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        api_key: str = "",
        call_log: Path | None = None,
        task_pattern: str = TASK_PATTERN,
    ) -> None:
        self.calls: list[Call] = []
        self.counts: Counter[str] = Counter()
        self.peak_concurrency = 0
        self.default = Reply("ok")
        self._host, self._port, self._api_key = host, port, api_key
        self._call_log = call_log
        self._task_pattern = re.compile(task_pattern)
        self._rules: list[Rule] = []
        self._in_flight = 0
        self._changed = asyncio.Condition()
        self._released = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def root_url(self) -> str:
        """``http://host:port``"""
        return f"http://{self._host}:{self._port}"

    @property
    def base_url(self) -> str:
        """``http://host:port/v1``"""
        return f"{self.root_url}/v1"

    def script(self, contains: str, *replies: Reply) -> None:
        """Answer prompts containing ``contains`` with ``replies``; newer rules are asked first."""
        self._rules.insert(0, Rule(contains, list(replies)))

    def release(self) -> None:
        """Let hanging requests go on, also those that come later."""
        self._released.set()

    async def wait_for_calls(self, count: int, timeout: float = 30.0) -> None:  # noqa: ASYNC109
        """Return when ``count`` calls have come in."""
        async with asyncio.timeout(timeout), self._changed:
            await self._changed.wait_for(lambda: len(self.calls) >= count)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self._host, self._port)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away; that is its business
        except asyncio.CancelledError:
            pass  # the server is closing; asyncio would log a cancelled handler as an error
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ", 2)
        headers = {
            k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)
        }
        raw = await reader.readexactly(int(headers.get("content-length", "0")))
        path = target.partition("?")[0]
        if path.startswith("/_control/"):
            status, body = self._control(method, path, raw)
            return await _send(writer, Reply(status=status), body)
        if method != "POST" or _protocol_of(path) is None:
            return await _send(writer, Reply(status=404), error_body("openai", Reply(message=f"no {target}")))
        self._in_flight += 1
        self.peak_concurrency = max(self.peak_concurrency, self._in_flight)
        try:
            return await self._answer(writer, path, headers, json.loads(raw))
        finally:
            self._in_flight -= 1

    async def _answer(
        self, writer: asyncio.StreamWriter, path: str, headers: dict[str, str], body: dict[str, Any]
    ) -> bool:
        protocol = _protocol_of(path)
        assert protocol is not None
        texts = _texts_of(body)
        prompt = "\n".join(texts)
        await self._remember(Call(path, self._task_of(texts), prompt, body, headers, time.time()))
        given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
        if self._api_key and given != self._api_key:
            refusal = Reply(
                status=401, message=f"Incorrect API key provided: {given}", code="invalid_api_key"
            )
            return await _send(writer, refusal, error_body(protocol, refusal))
        reply = next((rule.next() for rule in self._rules if rule.contains in prompt), self.default)
        if reply.delay_seconds:
            await asyncio.sleep(reply.delay_seconds)
        if reply.hang:
            await self._released.wait()
        if reply.drop == "before":
            return False
        if reply.drop == "reset":
            line: socket.socket = writer.get_extra_info("socket")
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return False
        if reply.raw_body is not None:
            payload = reply.raw_body if isinstance(reply.raw_body, bytes) else reply.raw_body.encode()
        elif reply.status != 200:
            payload = error_body(protocol, reply)
        else:
            answer = ANSWERS[protocol](reply, str(body.get("model", "")))
            if body.get("stream"):
                events = {"content-type": "text/event-stream", **reply.headers}
                return await _send(writer, replace(reply, headers=events), stream_of(protocol, answer))
            payload = json.dumps(answer).encode()
        return await _send(writer, reply, payload)

    async def _remember(self, call: Call) -> None:
        if self._call_log is not None:
            with self._call_log.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"task": call.task, "path": call.path, "at": call.at}) + "\n")
        async with self._changed:
            self.calls.append(call)
            self.counts[call.task] += 1
            self._changed.notify_all()

    def _task_of(self, texts: list[str]) -> str:
        match = self._task_pattern.search("\n".join(texts))
        return match[1] if match else texts[-1].strip()

    def _control(self, method: str, path: str, raw: bytes) -> tuple[int, bytes]:
        match method, path.removeprefix("/_control/"):
            case "GET", "counts":
                return 200, json.dumps(self.counts).encode()
            case "GET", "calls":
                return 200, json.dumps([asdict(call) for call in self.calls]).encode()
            case "POST", "script":
                self.load(json.loads(raw))
            case "POST", "release":
                self.release()
            case _:
                return 404, b"{}"
        return 200, b"{}"

    def load(self, script: dict[str, Any]) -> None:
        """Add the rules of a script, see the module's docstring."""
        for rule in script.get("rules", []):
            self.script(rule["contains"], *(Reply(**reply) for reply in rule["replies"]))
        if "default" in script:
            self.default = Reply(**script["default"])


def _protocol_of(path: str) -> str | None:
    endings = {"/chat/completions": "chat", "/responses": "responses", "/messages": "anthropic"}
    return next((name for ending, name in endings.items() if path.endswith(ending)), None)


def _texts_of(body: dict[str, Any]) -> list[str]:
    """The texts of the conversation, system prompt first."""
    items = body.get("messages") or body.get("input") or []
    texts = [_text_of(item.get("content")) for item in items if isinstance(item, dict)]
    return [_text_of(body.get("system")), *texts]


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part.get("text"), str))


async def _send(writer: asyncio.StreamWriter, reply: Reply, body: bytes) -> bool:
    """Write an answer; True when the connection stays open."""
    headers = {"content-type": "application/json", "content-length": str(len(body)), **reply.headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    if reply.drop == "body":
        body = body[: len(body) // 2]
    writer.write(f"HTTP/1.1 {reply.status} Scripted\r\n{head}\r\n".encode("latin-1") + body)
    await writer.drain()
    return not reply.drop


async def _main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--api-key", default="")
    parser.add_argument("--script", type=Path)
    parser.add_argument("--call-log", type=Path)
    options = parser.parse_args()
    server = ModelServer(
        host=options.host, port=options.port, api_key=options.api_key, call_log=options.call_log
    )
    if options.script:
        server.load(json.loads(options.script.read_text(encoding="utf-8")))
    async with server:
        print(f"listening on {server.base_url}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(_main())
    except KeyboardInterrupt:
        sys.exit(130)
