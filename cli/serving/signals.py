"""Serve until somebody ends the process politely."""

from __future__ import annotations

import signal
import threading
from socketserver import BaseServer
from types import FrameType


def serve_until_signal(server: BaseServer) -> None:
    """Serve requests until SIGTERM or SIGINT, then close the server."""

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        # shutdown() waits for the loop, which runs in this very thread.
        threading.Thread(target=server.shutdown, daemon=True).start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    with server:
        server.serve_forever(poll_interval=0.2)
