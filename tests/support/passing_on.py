"""A server on another address of this machine: whoever connects there is passed on to the one that exists."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def passing_on(host: str, target: str) -> Iterator[int]:
    """Listen on ``host`` and pass every connection on to ``target`` (host:port); yields the port."""
    target_host, _, target_port = target.rpartition(":")
    open_sockets: list[socket.socket] = []

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):  # either side may go at any time
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        with contextlib.suppress(OSError):  # the end of the block closes the listener
            while True:
                client, _ = listener.accept()
                server = socket.create_connection((target_host, int(target_port)))
                open_sockets.extend((client, server))
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=pump, args=ends, daemon=True).start()

    with socket.create_server((host, 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for end in open_sockets:
                end.close()
