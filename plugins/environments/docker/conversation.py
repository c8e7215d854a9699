"""The line to one running command: a thread reads it, the event loop waits."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ....contracts.environment import Output
from .engine import EngineError
from .frames import Line
from .sandbox import Sandbox

T = TypeVar("T")

KEPT_BYTES = 64 * 1024
"""Bytes kept of each end of a stream."""
_LONGEST_LINE = 8192
_REPORT = re.compile(r"report (\d{1,3}) ([01]) ([01]) (\d{1,18}) (\d{1,18})")


@dataclass(frozen=True)
class Report:
    """How a command ended, as its supervisor tells."""

    returncode: int
    exceeded: bool
    out_of_memory: bool
    stdout: Output
    stderr: Output


class Conversation:
    """One attached exec. ``read_line`` and ``read_report`` block; ``say_end`` and ``hang_up`` do not."""

    def __init__(self, sandbox: Sandbox, exec_id: str) -> None:
        self.exec_id = exec_id
        self.complaints = bytearray()
        """What the engine or the shell itself said, bounded."""
        self._sandbox = sandbox
        self._line: Line | None = None
        self._buffer = bytearray()
        self._lock = threading.Lock()
        self._end_asked = False
        self._over = False

    def begin(self) -> None:
        """Start the command. Raises what ``lost_or`` makes of a refusal."""
        engine = self._sandbox.engine
        try:
            line = Line(engine.translated(engine.api.exec_start, self.exec_id, socket=True))
        except EngineError as error:
            raise self._sandbox.lost_or(error) from error
        with self._lock:
            self._line = line
            over, asked = self._over, self._end_asked
        if over:
            self.hang_up()
        elif asked:
            line.send(b"end\n")

    def say_end(self) -> None:
        """Have the command ended; its report still comes."""
        with self._lock:
            self._end_asked = True
        if self._line is not None:
            self._line.send(b"end\n")

    def say_look(self) -> None:
        """Have the size of its output looked at."""
        if self._line is not None:
            self._line.send(b"look\n")

    def hang_up(self) -> None:
        """Close the line; whoever reads it sees its end. An attached command is ended by that."""
        with self._lock:
            self._over = True
            line = self._line
        if line is not None:
            line.close()

    def read_line(self) -> str:
        """A line of the script, empty when there is none before the end."""
        while b"\n" not in self._buffer and len(self._buffer) < _LONGEST_LINE:
            if not self._receive():
                break
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer[:] = rest
        return line.decode("utf-8", "replace").strip()

    def read_report(self, prefix: str) -> Report | None:
        """The report of a supervisor, ``None`` when it was killed before it could make one."""
        said = self.read_line()
        found = parsed_report(said)
        if found is None:
            self.complaints += said.encode()[:_LONGEST_LINE]
            return None
        code, exceeded, killed, out, err = found
        streams = []
        for name, size in (("out", out), ("err", err)):
            data = self._exactly(transferred(size))
            if data is None:
                return None
            streams.append(output_of(data, size, f"{prefix}{name}"))
        return Report(code, bool(exceeded), bool(killed), *streams)

    def _exactly(self, size: int) -> bytes | None:
        while len(self._buffer) < size:
            if not self._receive():
                return None
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def _receive(self) -> bool:
        """Take one frame in; False at the end of the line."""
        frame = self._line.next() if self._line is not None else None
        if frame is None:
            return False
        if frame.is_error:
            self.complaints += frame.data[: max(0, _LONGEST_LINE - len(self.complaints))]
        else:
            self._buffer += frame.data
        return True


def parsed_report(line: str) -> list[int] | None:
    """Status, output limit, lack of memory, and the sizes of both streams; ``None`` for another line."""
    found = _REPORT.fullmatch(line.strip())
    return [int(word) for word in found.groups()] if found else None


def transferred(size: int) -> int:
    """How many bytes of a stream of ``size`` a report holds: see ``ends`` in common.sh."""
    if size <= KEPT_BYTES:
        return size
    return KEPT_BYTES + size - _tail_block(size) * KEPT_BYTES


def output_of(data: bytes, size: int, path: str) -> Output:
    """A stream from its part in a report."""
    tail = min(max(size - KEPT_BYTES, 0), KEPT_BYTES)
    return Output(
        head=data[: min(size, KEPT_BYTES)], tail=data[len(data) - tail :], total_bytes=size, path=path
    )


def _tail_block(size: int) -> int:
    return (size - min(size - KEPT_BYTES, KEPT_BYTES)) // KEPT_BYTES


def in_own_thread(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Run ``work`` in a thread of its own: in a shared pool, long commands would keep their ending out."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(action: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            action(value)

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # handed to whoever waits
            action, value = future.set_exception, error
        else:
            action, value = future.set_result, result  # type: ignore[assignment]
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, action, value)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
