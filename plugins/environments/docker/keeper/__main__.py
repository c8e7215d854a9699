"""``python3 -m keeper``: rounds until no sandbox with services is left for a while, or the engine is out of reach."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import time
from typing import Any
from urllib.parse import quote

from . import belongings
from .belongings import ID_LABEL, Belonging, Memory

SOCKET = "/engine.sock"
_PAUSE_SECONDS = 5.0
_IDLE_ROUNDS = 24
_FAILED_ROUNDS = 24
_CALL_SECONDS = 60.0
_GONE, _BUSY = 404, 409


class EngineConnection(http.client.HTTPConnection):
    """HTTP over the engine's socket."""

    def __init__(self) -> None:
        super().__init__("engine", timeout=_CALL_SECONDS)

    def connect(self) -> None:
        """Connect to the socket that is mounted here."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(SOCKET)


def call(method: str, path: str) -> tuple[int, Any]:
    """Status and answer of the engine. Raises ``OSError``."""
    connection = EngineConnection()
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read()
    except http.client.HTTPException as error:
        raise OSError(f"{method} {path}: {error!r}") from error
    finally:
        connection.close()
    try:
        return answer.status, json.loads(body) if body else None
    except ValueError as error:  # a proxy's page, say, or half of an answer
        raise OSError(f"{method} {path}: {answer.status} without JSON: {error}") from error


def listed(path: str, *labels: str) -> Any:
    """What the engine has with these labels. Raises ``OSError``."""
    status, answer = call("GET", f"{path}filters={quote(json.dumps({'label': list(labels)}))}")
    if status != 200:
        raise OSError(f"GET {path}: {status} {answer}")
    return answer


def found() -> list[Belonging]:
    """All of sandboxes with services: containers first, since they hold the rest."""
    containers = [belongings.container(item) for item in listed("/containers/json?all=1&", ID_LABEL)]
    networks = [belongings.network(item) for item in listed("/networks?", ID_LABEL)]
    volumes = [belongings.volume(item) for item in listed("/volumes?", ID_LABEL)["Volumes"] or []]
    # Only sandboxes with services have a network of their own; others look after themselves.
    theirs = {item.environment for item in networks + volumes}
    theirs |= {item.environment for item in containers if item.service is not None}
    return [item for item in containers + networks + volumes if item.environment in theirs]


def look(memory: Memory) -> bool:
    """One round; False when there was nothing to look after. Raises ``OSError``."""
    items = found()
    for item in memory.over(items, time.time()):
        status, answer = call("DELETE", item.path)
        if status >= 400 and status not in (_GONE, _BUSY):  # busy: with its next round
            print(f"cannot remove {item.path}: {status} {answer}", flush=True)
        else:
            print(f"removed {item.path} of {item.environment}", flush=True)
    return bool(items)


def main() -> None:
    """Look every few seconds."""
    memory, idle, failed = Memory(), 0, 0
    while idle < _IDLE_ROUNDS and failed < _FAILED_ROUNDS:
        try:
            idle = 0 if look(memory) else idle + 1
            failed = 0
        except OSError as error:
            failed += 1
            print(f"round failed: {error}", flush=True)
        time.sleep(_PAUSE_SECONDS)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
