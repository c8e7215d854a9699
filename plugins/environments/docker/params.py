"""Parameters of the environment ``docker``."""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field, field_validator

from ....contracts.base import Contract

GIB = 1024**3
_FORBIDDEN_CAPABILITIES = frozenset(
    "ALL SYS_ADMIN SYS_MODULE SYS_RAWIO SYS_BOOT SYS_TIME NET_ADMIN NET_RAW BPF MAC_ADMIN "
    "DAC_READ_SEARCH SYSLOG PERFMON CHECKPOINT_RESTORE".split()
)
"""With these an agent could leave its sandbox or its network."""


class DockerMount(Contract):
    """A folder of the engine's machine that is visible inside."""

    source: str
    target: str
    read_only: bool = True

    @field_validator("source", "target")
    @classmethod
    def _absolute(cls, value: str) -> str:
        path = PurePosixPath(os.path.normpath(value))
        if not path.is_absolute() or path == PurePosixPath("/"):
            raise ValueError(f"{value!r} must be an absolute path below '/'")
        return str(path)

    @field_validator("source")
    @classmethod
    def _not_the_engine(cls, value: str) -> str:
        control = ("/run", "/var/run", "/var/lib/docker", "/proc", "/sys", "/dev", "/etc")
        if PurePosixPath(value).name == "docker.sock" or any(
            PurePosixPath(value).is_relative_to(folder) for folder in control
        ):
            raise ValueError(f"{value!r} would give the agent power over the machine")
        return value


class DockerParams(Contract):
    """Which engine, which image, and what the container may do."""

    host: str | None = None
    """The engine, as in ``DOCKER_HOST``: ``unix://``, ``tcp://`` or ``ssh://``; default: that variable,
    else the engine of this machine."""
    image: str | None = None
    """The image of tasks that name none."""
    pull: Literal["missing", "always", "never"] = "missing"
    platform: str | None = Field(default=None, pattern=r"^[a-z0-9]+/[a-z0-9_]+(/[a-z0-9]+)?$")
    """Such as ``linux/amd64``; default: the engine's own."""
    user: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)?$")
    """Runs commands that name no user; default: the image's."""
    read_only: bool = False
    """Only the work directory and ``/tmp`` can be written to."""
    pids_limit: int = Field(default=4096, ge=16)
    shm_mb: int = Field(default=64, gt=0)
    """MiB of ``/dev/shm``."""
    add_capabilities: list[str] = Field(default_factory=list)
    """Capabilities beyond the default set, such as ``SYS_PTRACE`` for debuggers."""
    mounts: list[DockerMount] = Field(default_factory=list)
    egress_image: str | None = None
    """An image with ``python3`` for the egress proxy of mode ``allowlist``; default: one made of the
    worker's own Python."""
    time_to_live_seconds: int | None = Field(default=None, ge=10, le=30 * 24 * 3600)
    """A container ends itself when its attempt has shown no sign of life for so long; default: a day."""
    max_output_bytes: int = Field(default=GIB, gt=0)
    """Bytes that one stream of one command may have; a command that writes more is ended."""
    grace_seconds: float = Field(default=2.0, ge=0, le=60)
    """Seconds between the request to end (SIGTERM) and SIGKILL."""
    engine_timeout_seconds: float = Field(default=60.0, gt=0, le=3600)
    """How long the engine may take to answer one call."""

    @field_validator("add_capabilities")
    @classmethod
    def _harmless(cls, value: list[str]) -> list[str]:
        names = [name.upper().removeprefix("CAP_") for name in value]
        refused = sorted(_FORBIDDEN_CAPABILITIES & set(names))
        if refused:
            raise ValueError(f"{', '.join(refused)} would let the agent out of its sandbox")
        return names

    @field_validator("host")
    @classmethod
    def _host(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("unix://", "tcp://", "ssh://")):
            raise ValueError(f"{value!r} must begin with unix://, tcp:// or ssh://")
        return value
