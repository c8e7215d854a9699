"""The line to one running command: a thread reads it, the event loop waits."""

from __future__ import annotations

import threading

from ..shared.reports import Report, output_of, parsed_report, transferred
from .engine import EngineError
from .frames import Line
from .sandbox import Sandbox

_LONGEST_LINE = 8192


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
