"""Environments: where commands run and files live.

An :class:`Environment` is a provider; its ``open`` returns an :class:`EnvironmentSession` on one
sandbox. A session can be dropped at any time and taken up again with ``attach(handle)``, in
another process and on another worker: a session must keep no state that the handle lacks.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, Field, JsonValue

from .base import Contract
from .component import Component
from .network import NetworkMode, NetworkPolicy
from .request import EnvironmentSpec

Command = str | Sequence[str]
"""A string goes to ``sh -c``; a sequence is executed as it is."""


class EnvironmentCapabilities(Contract):
    """What a provider can enforce; a request that needs more is refused at preflight."""

    network_modes: list[NetworkMode] = Field(default_factory=lambda: [NetworkMode.PUBLIC])
    switches_network: bool = False
    """True when the policy of a living sandbox can change between phases."""
    resources: list[str] = Field(default_factory=list)
    """Names of :class:`~agentcompass.contracts.request.ResourceRequirements` fields it honours."""
    isolated: bool = True
    """False when the provider does not protect the host from the agent."""
    host_bound: bool = False
    """True when only workers on the machine that opened it can reach the sandbox."""
    worker_host: str | None = None
    """Under which programs in the sandbox reach the worker's machine, as far as their policy lets them; ``None``:
    under no name that the provider knows."""


class EnvironmentHandle(Contract):
    """Enough to find a sandbox again from anywhere that can reach it; holds no secret."""

    provider: str
    id: str
    """Derived from the attempt before creation, so that a repeated ``open`` finds the first one."""
    data: dict[str, JsonValue] = Field(default_factory=dict)


class OpenRequest(Contract):
    """What ``open`` needs to know."""

    environment_id: str
    """The id that the sandbox must get; opening an id that exists returns the existing sandbox."""
    spec: EnvironmentSpec
    network_policy: NetworkPolicy
    env_variables: dict[str, str] = Field(default_factory=dict)
    """Resolved variables of the environment itself; may hold secrets and is never stored."""
    labels: dict[str, str] = Field(default_factory=dict)
    """launch, request, task, attempt, execution, expiry (Unix seconds), temporal (which namespace knows
    the attempt), and keep when the sandbox is to outlive its attempt."""


class WorkerAddress(Contract):
    """How a server on the worker's machine is reached from inside a sandbox."""

    host: str
    """The name or address to call."""
    bind: str
    """The address of the worker's machine to listen on: no more of its networks than needed."""


class Output(BaseModel):
    """A stream of a finished command: a bounded head and tail, and where the whole of it lies."""

    head: bytes = b""
    tail: bytes = b""
    total_bytes: int = 0
    path: str | None = None
    """Path of the full stream inside the environment, while the environment lives."""

    @property
    def truncated(self) -> bool:
        """True when bytes between head and tail are only in the file."""
        return self.total_bytes > len(self.head) + len(self.tail)

    @property
    def text(self) -> str:
        """Decoded once, after joining; stray bytes are replaced; a gap is marked."""
        if not self.truncated:
            return (self.head + self.tail).decode("utf-8", errors="replace")
        missing = self.total_bytes - len(self.head) - len(self.tail)
        head = self.head.decode("utf-8", errors="replace")
        tail = self.tail.decode("utf-8", errors="replace")
        return f"{head}\n[… {missing} bytes left out …]\n{tail}"


class ExecResult(BaseModel):
    """A finished command. ``returncode`` is negative for a signal, ``None`` after a timeout."""

    returncode: int | None
    stdout: Output = Field(default_factory=Output)
    stderr: Output = Field(default_factory=Output)
    timed_out: bool = False
    output_limit_exceeded: bool = False
    """True when the command was ended because it wrote more than the provider's limit."""
    oom_killed: bool = False
    """True when the kernel killed a process of the sandbox for lack of memory while this ran."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """True for exit status 0 in time."""
        return self.returncode == 0 and not self.timed_out


class ProcessStatus(BaseModel):
    """A detached process: running, or ended with a status (``None``: it vanished without one)."""

    process_id: str
    running: bool
    returncode: int | None = None
    started_at: float | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    output_limit_exceeded: bool = False
    """True when it was ended because it wrote more than the provider's limit."""
    oom_killed: bool = False
    """True when the kernel killed a process of the sandbox for lack of memory while it ran."""


class EnvironmentSession(abc.ABC):
    """Commands, processes and files of one sandbox. Paths are inside the sandbox."""

    handle: EnvironmentHandle

    def add_variables(self, variables: dict[str, str]) -> None:
        """Variables for every command of this session from now on; ``env=`` of a call wins.

        Implementations merge :attr:`variables` into what they execute. Values may be secret:
        they belong to the session in memory and never to the handle.
        """
        self._variables = {**self.variables, **variables}

    @property
    def variables(self) -> dict[str, str]:
        """What :meth:`add_variables` added."""
        return getattr(self, "_variables", {})

    async def worker_address(self) -> WorkerAddress | None:
        """Where programs inside reach a server of the worker's machine; ``None`` when they cannot.

        Its ``host`` is that of :attr:`EnvironmentCapabilities.worker_host`.
        """
        return None

    @property
    @abc.abstractmethod
    def workdir(self) -> str:
        """The default work directory, absolute."""

    @abc.abstractmethod
    async def exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_seconds: float | None = None,
        stdin: bytes | None = None,
        user: str | None = None,
    ) -> ExecResult:
        """Run a command to its end. After a timeout everything it started is dead."""

    @abc.abstractmethod
    async def start_process(
        self,
        process_id: str,
        command: Command,
        *,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
    ) -> ProcessStatus:
        """Start a detached process under an id; a second start of the same id changes nothing."""

    @abc.abstractmethod
    async def process_status(self, process_id: str) -> ProcessStatus | None:
        """The state of a detached process, ``None`` when that id was never started."""

    @abc.abstractmethod
    async def read_process_output(
        self, process_id: str, stream: str, offset: int, max_bytes: int = 65536
    ) -> bytes:
        """Bytes of ``stdout`` or ``stderr`` from ``offset``; empty at the end."""

    @abc.abstractmethod
    async def end_process(self, process_id: str, *, grace_seconds: float = 2.0) -> None:
        """End a detached process and all it started; nothing happens when it is gone."""

    @abc.abstractmethod
    async def end_all_processes(self) -> int:
        """End every process that runs in the sandbox for its user; returns how many were found."""

    @abc.abstractmethod
    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """A file's bytes. Raises ``FileNotFoundError``; ``ValueError`` above ``max_bytes``."""

    @abc.abstractmethod
    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file, making its parent directories."""

    @abc.abstractmethod
    async def upload(self, source: Path, destination: str) -> None:
        """Copy a local file or tree into the sandbox."""

    @abc.abstractmethod
    async def download(self, source: str, destination: Path) -> None:
        """Copy a file or tree out of the sandbox; links that leave it are not followed."""

    def stream_archive(self, source: str, *, exclude: Sequence[str] = ()) -> AsyncGenerator[bytes, None]:
        """The file or tree at ``source`` as a tar archive, while it is being made.

        A reader that has seen enough stops early, so nothing may be prepared as a whole. Members are
        named from the last component of ``source`` on; links are members, not followed. What
        :func:`~agentcompass.contracts.artifacts.is_excluded` says of ``exclude`` may be left out. The
        reader trusts nothing in the archive. Iterating raises ``FileNotFoundError`` when nothing is
        there, ``PermissionError`` for a path that leads out of the sandbox, ``OSError`` when it breaks off.

        Optional: for a provider without it the runtime uses the sandbox's own ``tar``.
        """
        raise NotImplementedError(f"this environment has no archive of {source!r} with {exclude!r}")

    async def endpoint(self, port: int) -> str | None:
        """A URL under which a port of the sandbox can be reached, when the provider has one."""
        del port
        return None

    async def set_network_policy(self, policy: NetworkPolicy) -> None:
        """Switch the policy of the living sandbox. Only called when ``switches_network``."""
        raise NotImplementedError(f"this environment cannot switch to {policy.network_mode}")


class ServiceReport(BaseModel):
    """A service that runs beside a sandbox, such as a database of the task."""

    name: str
    running: bool
    problem: str = ""
    """What is wrong with it, after its name, as in ``ended with status 1``; empty when nothing is."""
    log: bytes = b""
    """The end of what it has written."""


class EnvironmentRecord(Contract):
    """An environment as its provider knows it, for listing and cleaning up."""

    handle: EnvironmentHandle
    labels: dict[str, str] = Field(default_factory=dict)
    created_at: float | None = None
    """Unix seconds."""
    expires_at: float | None = None
    """End of the time to live as renewed last, in Unix seconds; ``None`` for a provider that cannot renew."""


ParamsT = TypeVar("ParamsT", bound=BaseModel)


class Environment(Component[ParamsT]):
    """A provider of sandboxes."""

    capabilities: EnvironmentCapabilities = EnvironmentCapabilities()
    """Of the class, or set by an instance whose parameters decide, such as a remote engine."""

    lease_seconds: float | None = None
    """How long a sandbox may live without a sign of life of its attempt, when parameters say so; ``renew`` is
    called several times in that time. ``None``: as long as the runtime finds right, a day."""

    async def preflight(self, spec: EnvironmentSpec) -> None:
        """Raise a ``UsageError`` or ``ServiceUnreachableError`` when it cannot work at all."""

    @abc.abstractmethod
    async def open(self, request: OpenRequest) -> EnvironmentSession:
        """Create the sandbox ``request.environment_id``, or take up the one of that id."""

    @abc.abstractmethod
    async def attach(self, handle: EnvironmentHandle) -> EnvironmentSession:
        """A session on a living sandbox. Raises ``EnvironmentLostError`` when it is gone."""

    @abc.abstractmethod
    async def close(self, handle: EnvironmentHandle) -> None:
        """Remove the sandbox and end all in it; nothing happens when it is gone already."""

    async def services(self, handle: EnvironmentHandle) -> list[ServiceReport]:
        """What became of the services beside a sandbox; asked before one with a compose file is closed.

        Optional: the default is that there are none.
        """
        del handle
        return []

    async def renew(self, handle: EnvironmentHandle, expires_at: float) -> None:
        """Move the end of the sandbox's time to live to ``expires_at`` (Unix seconds).

        Called every few minutes while an attempt uses the sandbox, so that one whose attempt died with
        everything around it can be told from one that is in use. A provider that ends sandboxes by
        itself renews that limit; one that does not writes the time down and returns it as
        :attr:`EnvironmentRecord.expires_at`. Raises ``EnvironmentLostError`` when the sandbox is gone.

        Optional: the default does nothing, and only the label ``expiry`` tells.
        """
        del handle, expires_at

    async def list_environments(self, labels: dict[str, str] | None = None) -> list[EnvironmentRecord]:
        """Sandboxes that exist at the provider and carry all of ``labels``, whoever opened them.

        Raises ``NotImplementedError`` when the provider cannot tell, which is not the same as none.
        """
        del labels
        raise NotImplementedError(f"environment {self.id!r} cannot list its sandboxes")


class EnvironmentLostError(Exception):
    """The sandbox behind a handle does not exist any more."""
