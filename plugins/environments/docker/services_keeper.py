"""The keeper of an engine, seen from a worker: it has to run while there are sandboxes with services.

When every worker is gone, a sandbox ends by itself; its services are other people's programs, which do not. The
keeper is a container of ours beside them that has the engine's socket and no network. It ends itself when nothing
is left to look after.
"""

from __future__ import annotations

import functools
import logging
from typing import Any
from urllib.parse import urlsplit

from ....contracts.errors import UsageError
from .container import MAIN, SERVICE_LABEL
from .egress_image import ensure_image, python_command
from .engine import CONFLICT, NOT_FOUND, Engine, EngineError

_log = logging.getLogger(__name__)
_NAME, _LABEL = "agentcompass-keeper", "agentcompass.keeper"
_INSIDE = "/engine.sock"
_USUAL_SOCKET = "/var/run/docker.sock"
_MEMORY = "128m"
_TRIES = 5
_seen: set[str] = set()
"""Engines where this worker has seen it run: there it ends only when no sandbox with services is left."""


def ensure_keeper(engine: Engine, image: str | None) -> None:
    """Start it unless it runs. Blocks. Where it cannot be started, the log says so, once an engine."""
    try:
        for _ in range(_TRIES):
            if _runs(engine):
                _seen.add(engine.host)
                return
            if engine.host in _seen and _has_services(engine):
                _warn_of_end(engine.host)
            _start(engine, image)
    except (EngineError, UsageError) as error:
        _warn(engine.host, str(error))


@functools.cache
def _warn(host: str, reason: str) -> None:
    _log.warning(
        "services of compose files on the engine at %s do not end by themselves when all workers are gone: %s",
        host,
        reason,
    )


@functools.cache
def _warn_of_end(host: str) -> None:
    _log.warning(
        "the container %s on the engine at %s had ended although sandboxes with services are there; "
        "it is started again. Until then nothing ended their services when all workers were gone",
        _NAME,
        host,
    )


def _has_services(engine: Engine) -> bool:
    labels = [f"{SERVICE_LABEL}={MAIN}"]
    return bool(engine.translated(engine.api.containers, filters={"label": labels, "status": "running"}))


def _runs(engine: Engine) -> bool:
    try:
        found: dict[str, Any] = engine.translated(engine.api.inspect_container, _NAME)
    except EngineError as error:
        if error.status == NOT_FOUND:
            return False
        raise
    return bool(found["State"]["Running"])


def _start(engine: Engine, image: str | None) -> None:
    from docker.types import Mount

    api = engine.api
    host = api.create_host_config(
        network_mode="none",
        userns_mode="host",  # where the engine remaps users, root in here could not open its socket
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        read_only=True,
        mem_limit=_MEMORY,
        pids_limit=16,
        auto_remove=True,
        # Not a bind by name, for which the engine would make a folder where there is no socket.
        mounts=[Mount(_INSIDE, socket_of(engine.host), type="bind")],
        log_config={"type": "json-file", "config": {"max-size": "1m", "max-file": "1"}},
    )
    config = api.create_container_config(
        image=ensure_image(engine, image),
        entrypoint=[],
        command=python_command(image, "keeper"),
        working_dir="/opt",
        user="0:0",
        labels={_LABEL: "1"},
        host_config=host,
    )
    try:
        engine.translated(api.create_container_from_config, config, _NAME)
    except EngineError as error:
        if error.status != CONFLICT:  # otherwise somebody else's is there, or on its way out
            raise
    try:
        engine.translated(api.start, _NAME)
    except EngineError as error:
        if error.status != NOT_FOUND:  # it has ended, and is removed
            raise


def socket_of(host: str) -> str:
    """Where the engine's socket is on its own machine."""
    parts = urlsplit(host)
    own = parts.scheme == "unix" or (parts.scheme == "ssh" and parts.path.strip("/"))
    return parts.path if own else _USUAL_SOCKET
