"""A real engine behind a socket on which something goes wrong, or differently than usual."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

_PIECE = 65536


Relay = Callable[[socket.socket, socket.socket], None]
"""Passes bytes on from the first to the second until the end."""


@contextlib.contextmanager
def engine_that_hangs(folder: Path, beginning: bytes, within: bytes = b"") -> Iterator[str]:
    """The address of an engine that hangs on requests that begin like that and hold ``within`` in their line.

    The file ``hanging`` in ``folder`` says that one has come.
    """

    def hangs(data: bytes) -> bool:
        found = data.startswith(beginning) and within in data.partition(b"\r\n")[0]
        if found:
            (folder / "hanging").touch()
        return found

    with _between(folder / "hanging.sock", lambda client, engine: _pass_on(client, engine, hangs)) as address:
        yield address


@contextlib.contextmanager
def engine_that_works(folder: Path) -> Iterator[str]:
    """The one that hung in ``folder``, recovered."""
    (folder / "hanging.sock").unlink()
    with _between(folder / "hanging.sock", lambda *ends: _pass_on(*ends, lambda _: False)) as address:
        yield address


@contextlib.contextmanager
def engine_whose_answer_is_lost(folder: Path, beginning: bytes, within: bytes) -> Iterator[str]:
    """Such requests reach it and are carried out; the connection breaks before the answer."""
    lost: set[int] = set()

    def forward(client: socket.socket, engine: socket.socket) -> None:
        def watch(data: bytes) -> bool:
            if data.startswith(beginning) and within in data.partition(b"\r\n")[0]:
                lost.add(engine.fileno())
            return False

        _pass_on(client, engine, watch)

    def back(engine: socket.socket, client: socket.socket) -> None:
        _pass_on(engine, client, lambda data: engine.fileno() in lost)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    with _between(folder / "losing.sock", forward, back) as address:
        yield address


@contextlib.contextmanager
def engine_that_answers_in_one_piece(folder: Path) -> Iterator[str]:
    """What a command prints comes together with the head of the answer, as on a busy machine."""

    def back(engine: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := engine.recv(_PIECE):
                if data.startswith((b"HTTP/1.1 101", b"HTTP/1.1 200")) and b"raw-stream" in data:
                    data += engine.recv(_PIECE)
                client.sendall(data)
            client.shutdown(socket.SHUT_WR)

    with _between(folder / "slow.sock", lambda *ends: _pass_on(*ends, lambda _: False), back) as address:
        yield address


@contextlib.contextmanager
def _between(place: Path, forward: Relay, back: Relay | None = None) -> Iterator[str]:
    back = back or (lambda engine, client: _pass_on(engine, client, lambda _: False))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place))
        listening.listen()

        def accept() -> None:
            with contextlib.suppress(OSError):  # closed: the test is over
                while True:
                    client, _ = listening.accept()
                    engine = _engine()
                    threading.Thread(target=forward, args=(client, engine), daemon=True).start()
                    threading.Thread(target=back, args=(engine, client), daemon=True).start()

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


def _pass_on(source: socket.socket, target: socket.socket, hangs: Callable[[bytes], bool]) -> None:
    """Pass bytes on until the end; each request of a client comes in a piece of its own."""
    with contextlib.suppress(OSError):
        while data := source.recv(_PIECE):
            if hangs(data):
                return
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
