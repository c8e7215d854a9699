"""How workers steer the proxy: a socket in a volume that no sandbox has.

A request is one JSON object, with a listening socket beside it for ``listen``; the answer is one, too.
"""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from typing import Any

FOLDER = Path("/egress")
SOCKET = FOLDER / "control.sock"
POLICIES = FOLDER / "policies"
PORT = 3128
_LARGEST = 4 * 1024 * 1024
_SECONDS = 20.0


def ask(request: dict[str, Any], listening: socket.socket | None = None) -> dict[str, Any]:
    """Send a request and return the answer. Raises ``OSError``."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(_SECONDS)
        line.connect(str(SOCKET))
        data = json.dumps(request).encode("ascii")
        header = len(data).to_bytes(4, "big")
        if listening is None:
            line.sendall(header)
        else:
            socket.send_fds(line, [header], [listening.fileno()])
        line.sendall(data)
        answer: dict[str, Any] = json.loads(_exactly(line, int.from_bytes(_exactly(line, 4), "big")))
        return answer


def take(line: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receive a request and the descriptors that came with it. Raises ``OSError``, ``ValueError``."""
    line.settimeout(_SECONDS)
    header, descriptors, _, _ = socket.recv_fds(line, 4, 1)
    size = int.from_bytes(header + _exactly(line, 4 - len(header)), "big")
    if size > _LARGEST:
        raise ValueError(f"a request of {size} bytes")
    request: dict[str, Any] = json.loads(_exactly(line, size))
    return request, descriptors


def answer(line: socket.socket, value: dict[str, Any]) -> None:
    """Send the answer to a request."""
    data = json.dumps(value).encode("ascii")
    line.sendall(len(data).to_bytes(4, "big") + data)


def policy_file(sandbox: str) -> Path:
    """Where the policy of a sandbox is kept, so that it outlives the proxy. Raises ``ValueError``."""
    if not re.fullmatch(r"[0-9a-f]{12,64}", sandbox):
        raise ValueError(f"{sandbox!r} is not the id of a container")
    return POLICIES / f"{sandbox}.json"


def store_policy(sandbox: str, value: dict[str, Any]) -> None:
    """Keep a policy; a reader sees the old one or the new one."""
    file = policy_file(sandbox)
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps(value), encoding="ascii")
    os.replace(temporary, file)


def listening_socket() -> socket.socket:
    """A socket on the loopback of whatever network this process is in."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", PORT))
    listening.listen(256)
    return listening


def _exactly(line: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = line.recv(size - len(data))
        if not piece:
            raise ConnectionError("the line broke off")
        data += piece
    return data
