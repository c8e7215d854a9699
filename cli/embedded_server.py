"""The Temporal server that AgentCompass runs for itself when no cluster is configured.

One server for each AgentCompass home, started by the first command that needs it and shared by
all later ones. It is a process of its own: it survives the command, its terminal and its Ctrl-C.

Two locks below the home keep it to one server:

- `change.lock` is held by the command that starts or stops the server;
- `running.lock` is inherited by the server and held until it dies. It is what protects the
  database when the recorded process id says nothing: state file lost, another host or container.

ServiceUnreachableError
└── ServerStartError             the server could not be started or does not become ready
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from temporalio.service import RPCError, ServiceClient

from ..contracts.errors import ConfigurationError
from ..contracts.search_attributes import SEARCH_ATTRIBUTES
from .server_namespace import connect_if_served, server_version, set_up_namespace
from .server_process import (
    NAMESPACE,
    Ports,
    ServerStartError,
    choose_ports,
    log_tail,
    random_ports,
    spawn,
)
from .server_state import ServerFiles, ServerState, exclusive_lock

__all__ = [
    "NAMESPACE",
    "EmbeddedServer",
    "ServerInfo",
    "ServerStartError",
    "ServerStatus",
    "agentcompass_home",
]

HOME_VARIABLE = "AGENTCOMPASS_HOME"
DEFAULT_PORTS = Ports(grpc=7243, ui=8243)

READY_SECONDS = 30.0
READY_POLL_SECONDS = 0.03
BANNER_SECONDS = 1.0
START_ATTEMPTS = 3
CHANGE_LOCK_SECONDS = READY_SECONDS * START_ATTEMPTS
RUNNING_LOCK_SECONDS = 3.0
PORT_RELEASE_SECONDS = 1.0
TERM_SECONDS = 10.0
KILL_SECONDS = 5.0


@dataclass(frozen=True)
class ServerInfo:
    """A server that is ready."""

    address: str
    ui_address: str
    namespace: str
    pid: int
    version: str
    started: bool
    """Whether this call started it."""


@dataclass(frozen=True)
class ServerStatus:
    """What is known about the server without asking it; None where no server runs."""

    running: bool
    pid: int | None
    address: str | None
    ui_address: str | None
    version: str | None
    uptime: timedelta | None
    db_path: Path
    db_bytes: int
    """Size of the database with its write-ahead log; 0 before the first start."""


class _ServerEndedError(Exception):
    """The server process ended while we waited for it to become ready."""


def agentcompass_home(env: Mapping[str, str] = os.environ) -> Path:
    """`$AGENTCOMPASS_HOME`, by default `~/.agentcompass`, as an absolute path."""
    return Path(env.get(HOME_VARIABLE) or "~/.agentcompass").expanduser().absolute()


class EmbeddedServer:
    """Starts, finds, heals and stops the one Temporal server of an AgentCompass home."""

    def __init__(
        self,
        home: Path,
        *,
        search_attributes: Mapping[str, str] = SEARCH_ATTRIBUTES,
        preferred_ports: Ports = DEFAULT_PORTS,
    ) -> None:
        self._files = ServerFiles(home.absolute())
        self._search_attributes = dict(search_attributes)
        self._preferred_ports = preferred_ports

    async def ensure(self) -> ServerInfo:
        """Return the running server; start it, or start it again on its database, if need be.

        Commands may call this at the same time: one starts the server, the others wait for it.

        Raises:
            ServerStartError: no server is ready in time; the message ends with its log.
            ConfigurationError: the home is a file.
        """
        try:
            state = self._files.read_state()
            if state is not None and await self._is_as_wanted(state):
                return _info(state, started=False)
            self._files.prepare()
            async with self._change_lock():
                return await self._ensure_alone()
        except OSError as error:
            home = self._files.home
            if home.exists() and not home.is_dir():
                raise ConfigurationError(
                    f"AGENTCOMPASS_HOME {home} is a file: move it away, or choose another folder"
                ) from error
            where = f" ({error.filename})" if error.filename else ""
            raise ServerStartError(
                f"Cannot use AGENTCOMPASS_HOME {home}: {error.strerror or error}{where}"
            ) from error

    async def stop(self) -> bool:
        """End the server politely, then by force; return whether one was running.

        Running workflows are kept in the database and go on when the server is started again.
        """
        if not self._files.folder.exists():
            return False
        async with self._change_lock():
            state = self._files.read_state()
            if state is None:
                return False
            was_running = await _end(state)
            self._files.write_state(state.model_copy(update={"pid": None, "start_marker": None}))
            return was_running

    def has_died(self) -> bool:
        """Whether a server was started, not stopped, and yet runs no more."""
        state = self._files.read_state()
        return state is not None and state.pid is not None and not state.is_running

    def status(self) -> ServerStatus:
        """Describe the server from its files and its process, without connecting."""
        state = self._files.read_state()
        db_bytes = sum(file.stat().st_size for file in self._files.database_files())
        if state is None or not state.is_running:
            return ServerStatus(False, None, None, None, None, None, self._files.database, db_bytes)
        return ServerStatus(
            running=True,
            pid=state.pid,
            address=state.address,
            ui_address=state.ui_address,
            version=state.version or None,
            uptime=datetime.now(UTC) - state.started_at,
            db_path=self._files.database,
            db_bytes=db_bytes,
        )

    @asynccontextmanager
    async def _change_lock(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(
                    exclusive_lock(self._files.change_lock, wait_seconds=CHANGE_LOCK_SECONDS)
                )
            except TimeoutError as error:
                raise ServerStartError(
                    f"Another command does not finish starting or stopping the server: {error}"
                ) from error
            yield

    async def _is_as_wanted(self, state: ServerState) -> bool:
        """The short way, taken by nearly every command: no lock, no process, one connection."""
        return (
            state.ready
            and self._search_attributes.items() <= state.search_attributes.items()
            and state.is_running
            and await connect_if_served(state.grpc_port) is not None
        )

    async def _ensure_alone(self) -> ServerInfo:
        """The long way, with the change lock held."""
        state = self._files.read_state()
        if state is not None and await self._is_as_wanted(state):
            return _info(state, started=False)  # another command was faster
        if state is not None and state.is_running:
            # Still starting, or short of a search attribute of this version, or very busy.
            try:
                return _info(await self._make_ready(state), started=False)
            except _ServerEndedError:
                pass  # it was about to die when we looked
        return await self._start(state)

    async def _start(self, previous: ServerState | None) -> ServerInfo:
        ports = await self._choose_ports(previous)
        for _ in range(START_ATTEMPTS):
            state = await self._spawn(ports)
            try:
                return _info(await self._make_ready(state), started=True)
            except _ServerEndedError as error:
                if not self._lost_port_race():
                    raise ServerStartError(
                        f"The embedded Temporal server ended while it started{self._log_excerpt()}"
                    ) from error
                ports = random_ports()
            except ServerStartError:
                # Nobody else can want a server that we started and that did not become ready.
                await _end(state)
                raise
        raise ServerStartError(
            f"The embedded Temporal server lost its port {START_ATTEMPTS} times{self._log_excerpt()}"
        )

    async def _choose_ports(self, previous: ServerState | None) -> Ports:
        """The ports of last time if they are free: workers go on asking at the old address."""
        if previous is None:
            return choose_ports(self._preferred_ports)
        wanted = Ports(previous.grpc_port, previous.ui_port)
        loop = asyncio.get_running_loop()
        # A killed server keeps its ports for a moment after its process has ended.
        patience = 0.0 if previous.pid is None else PORT_RELEASE_SECONDS
        give_up_at = loop.time() + patience
        while True:
            ports = choose_ports(wanted)
            if ports == wanted or loop.time() >= give_up_at:
                return ports
            await asyncio.sleep(READY_POLL_SECONDS)

    async def _spawn(self, ports: Ports) -> ServerState:
        self._files.protect_database()
        try:
            async with exclusive_lock(self._files.running_lock, wait_seconds=RUNNING_LOCK_SECONDS) as lock:
                return spawn(self._files, ports, self._search_attributes, lock)
        except TimeoutError as error:
            raise ServerStartError(
                f"A server that this command cannot see already uses {self._files.database}: on "
                "another host, in another container, or its state file was removed. Stop it "
                f"there, or set {HOME_VARIABLE} to another folder"
            ) from error

    async def _make_ready(self, state: ServerState) -> ServerState:
        """Wait until the server serves, set up its namespace, and record that it is ready."""
        client = await self._wait_until_served(state)
        try:
            await set_up_namespace(client, self._search_attributes)
            version = await server_version(client)
        except RPCError as error:
            raise ServerStartError(
                f"The embedded Temporal server at {state.address} cannot be set up: {error}"
            ) from error
        self._files.protect_database()
        # Attributes that an older or newer version verified stay verified.
        attributes = state.search_attributes | self._search_attributes
        ready = state.model_copy(update={"ready": True, "version": version, "search_attributes": attributes})
        self._files.write_state(ready)
        return ready

    async def _wait_until_served(self, state: ServerState) -> ServiceClient:
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + READY_SECONDS
        served_since: float | None = None
        while loop.time() < give_up_at:
            if not state.is_running:
                raise _ServerEndedError
            client = await connect_if_served(state.grpc_port)
            if client is not None:
                served_since = served_since or loop.time()
                # A stranger may have taken the port and answer in place of our server, which is
                # about to die of it. Our server's own word settles it, and so does its survival.
                if self._log_names_port(state) or loop.time() - served_since > BANNER_SECONDS:
                    return client
            await asyncio.sleep(READY_POLL_SECONDS)
        raise ServerStartError(
            f"The embedded Temporal server (process {state.pid}, {state.address}) is not ready "
            f"after {READY_SECONDS:.0f} s{self._log_excerpt()}"
        )

    def _lost_port_race(self) -> bool:
        """Whether another program took a port between our look at it and the server's start."""
        log = self._files.log.read_text(encoding="utf-8", errors="replace")
        return "address already in use" in log

    def _log_excerpt(self) -> str:
        return f"; the last lines of {self._files.log}:\n{log_tail(self._files)}"

    def _log_names_port(self, state: ServerState) -> bool:
        """Whether the server printed its banner, which it does once it listens."""
        with open(self._files.log, encoding="utf-8", errors="replace") as log:
            start = log.read(20_000)
        return re.search(rf"Server:\s+\S+:{state.grpc_port}\b", start) is not None


def _info(state: ServerState, *, started: bool) -> ServerInfo:
    assert state.pid is not None, "only a running server has an info"
    return ServerInfo(
        address=state.address,
        ui_address=state.ui_address,
        namespace=NAMESPACE,
        pid=state.pid,
        version=state.version,
        started=started,
    )


async def _end(state: ServerState) -> bool:
    """End the recorded process if it is still the one recorded; return whether it was."""
    if not state.is_running or state.pid is None:
        return False
    loop = asyncio.get_running_loop()
    for how, patience in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        try:
            os.kill(state.pid, how)
        except ProcessLookupError:
            return True
        give_up_at = loop.time() + patience
        while loop.time() < give_up_at:
            if not state.is_running:
                return True
            await asyncio.sleep(READY_POLL_SECONDS)
    raise ServerStartError(f"Process {state.pid} of the embedded Temporal server cannot be ended")
