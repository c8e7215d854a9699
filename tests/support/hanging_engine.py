"""A real engine behind a socket on which one kind of request is never answered."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

_PIECE = 65536


@contextlib.contextmanager
def engine_that_hangs(folder: Path, beginning: bytes, within: bytes = b"") -> Iterator[str]:
    """The address of an engine that hangs on requests that begin like that and hold ``within`` in their line."""
    place = folder / "hanging.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()

        def hangs(data: bytes) -> bool:
            return data.startswith(beginning) and within in data.partition(b"\r\n")[0]

        def accept() -> None:
            with contextlib.suppress(OSError):  # closed: the test is over
                while True:
                    client, _ = listening.accept()
                    engine = _engine()
                    threading.Thread(target=_pass_on, args=(client, engine, hangs), daemon=True).start()
                    threading.Thread(
                        target=_pass_on, args=(engine, client, lambda _: False), daemon=True
                    ).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"unix://{place}"
        listening.shutdown(socket.SHUT_RDWR)


def _engine() -> socket.socket:
    address = urlsplit(os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock")
    if address.scheme == "unix":
        line = socket.socket(socket.AF_UNIX)
        line.connect(address.path)
        return line
    return socket.create_connection((address.hostname or "", address.port or 2375))


def _pass_on(source: socket.socket, target: socket.socket, hangs) -> None:  # type: ignore[no-untyped-def]
    """Pass bytes on until the end; each request of a client comes in a piece of its own."""
    with contextlib.suppress(OSError):
        while data := source.recv(_PIECE):
            if hangs(data):
                return
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
