"""What the engine sends on the line to a running command: frames of standard output and error."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Any

_HEADER = 8
_STDERR = 2


def _read_ahead(stream: Any, line: Any) -> bytes:
    """What came in one piece with the head of the answer, and lies in the SDK's buffer now."""
    response = getattr(stream, "_response", None)
    if response is None:
        return b""
    line.settimeout(0)
    try:
        found: bytes = response.raw._fp.fp.peek()
    except (BlockingIOError, ssl.SSLWantReadError):
        return b""
    return found or b""


class LineDeadlineError(Exception):
    """Nothing more may be waited for."""


@dataclass(frozen=True)
class Frame:
    """A piece of one of the streams."""

    is_error: bool
    data: bytes


class Line:
    """The stream of one attached command. Blocks; may be closed from another thread."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        # The SDK hands out a SocketIO for plain connections, the TLS socket itself for others.
        self._socket = getattr(stream, "_sock", stream)
        self._ahead = bytearray(_read_ahead(stream, self._socket))
        self._socket.settimeout(None)

    def next(self, deadline: float | None = None) -> Frame | None:
        """The next frame, ``None`` at the end. Raises ``LineDeadlineError`` at that monotonic time."""
        header = self._exactly(_HEADER, deadline)
        if header is None:
            return None
        data = self._exactly(int.from_bytes(header[4:], "big"), deadline)
        return None if data is None else Frame(header[0] == _STDERR, data)

    def send(self, data: bytes) -> None:
        """Write to the command's standard input; nothing happens when it has ended meanwhile."""
        with contextlib.suppress(OSError):
            self._socket.sendall(data)

    def close(self) -> None:
        """Whoever reads sees the end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError):
            self._stream.close()
            self._socket.close()

    def _exactly(self, size: int, deadline: float | None) -> bytes | None:
        data = self._ahead[:size]
        del self._ahead[:size]
        while len(data) < size:
            try:
                if deadline is not None:
                    left = deadline - time.monotonic()
                    if left <= 0:
                        raise LineDeadlineError
                    self._socket.settimeout(left)
                piece = self._socket.recv(size - len(data))
            except TimeoutError:
                raise LineDeadlineError from None
            except (OSError, ValueError):
                return None  # closed, here or there
            if not piece:
                return None
            data += piece
        return bytes(data)
