"""The services of a compose file, as far as they are understood."""

from __future__ import annotations

from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    field_validator,
    model_validator,
)

from . import refusals, values
from .document import TASK_IMAGE

Words = Annotated[list[str], BeforeValidator(values.words)]
Texts = Annotated[list[str], BeforeValidator(values.texts)]
Variables = Annotated[dict[str, str], BeforeValidator(values.variables)]
Seconds = Annotated[Annotated[float, Field(ge=0, le=86_400)], BeforeValidator(values.seconds)]
Bytes = Annotated[Annotated[int, Field(gt=0, le=2**50)] | None, BeforeValidator(values.size)]
Cores = Annotated[Annotated[float, Field(gt=0, le=4096)] | None, BeforeValidator(values.number)]
Name = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int) else value)]


class Part(BaseModel):
    """A mapping of the file."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Condition(StrEnum):
    """What a service waits for at another one."""

    STARTED = "service_started"
    HEALTHY = "service_healthy"
    COMPLETED = "service_completed_successfully"


class Dependency(Part):
    """One entry of ``depends_on``."""

    condition: Condition = Condition.STARTED
    restart: bool = False
    required: Literal[True] = True


class Build(Part):
    """An image that is built; paths are relative to the file's folder."""

    context: str = "."
    dockerfile: str | None = None
    args: Variables = Field(default_factory=dict)
    target: str | None = None


class Healthcheck(Part):
    """When a service is healthy; seconds."""

    test: list[str] = Field(default_factory=list)
    """``["CMD", …]``, ``["CMD-SHELL", text]`` or ``["NONE"]``; empty: the image's."""
    interval: Seconds = 30.0
    timeout: Seconds = 30.0
    start_period: Seconds = 0.0
    start_interval: Seconds | None = None
    """Not used: the interval holds."""
    retries: int = Field(default=3, ge=1, le=10_000)
    disable: bool = False

    @field_validator("test", mode="before")
    @classmethod
    def _of_text(cls, value: Any) -> Any:
        return ["CMD-SHELL", value] if isinstance(value, str) else value

    @field_validator("test")
    @classmethod
    def _known_form(cls, value: list[str]) -> list[str]:
        form, count = (value[0], len(value)) if value else ("", 0)
        if value and not (
            (form == "CMD" and count > 1) or (form == "CMD-SHELL" and count == 2) or value == ["NONE"]
        ):
            raise ValueError("it must be a text, ['CMD', …], ['CMD-SHELL', text] or ['NONE']")
        return value

    @property
    def disabled(self) -> bool:
        """True when even the image's own check is not to run."""
        return self.disable or self.test == ["NONE"]


class Mount(Part):
    """A named volume, something from the file's folder, or memory, at a path inside."""

    type: Literal["volume", "bind", "tmpfs"]
    source: str = ""
    """The volume's name, or the path; empty: a volume without a name."""
    target: str
    read_only: bool = False

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        parts = value.split(":")
        options = parts.pop().split(",") if len(parts) == 3 else []
        if not 1 <= len(parts) <= 2 or not set(options) <= {"ro", "rw", "z", "Z"}:
            raise ValueError(f"{value!r} is not understood; write SOURCE:TARGET or SOURCE:TARGET:ro")
        source = parts[0] if len(parts) == 2 else ""
        kind = "bind" if source.startswith((".", "/", "~", "<")) else "volume"
        return {"type": kind, "source": source, "target": parts[-1], "read_only": "ro" in options}

    @model_validator(mode="after")
    def _has_places(self) -> Mount:
        if not self.target.startswith("/") or PurePosixPath(self.target) == PurePosixPath("/"):
            raise ValueError(f"the target {self.target!r} must be an absolute path below '/'")
        if ".." in PurePosixPath(self.target).parts or ":" in self.target:
            raise ValueError(f"the target {self.target!r} may have neither '..' nor ':'")
        if self.type == "bind" and not self.source:
            raise ValueError("a bind mount needs a source")
        return self


class Limits(Part):
    """``deploy.resources.limits``."""

    cpus: Cores = None
    memory: Bytes = None
    pids: int | None = Field(default=None, gt=0)


class Reservations(Part):
    """``deploy.resources.reservations``, which mean nothing on a single machine."""

    cpus: Cores = None
    memory: Bytes = None


class Resources(Part):
    """``deploy.resources``."""

    limits: Limits = Field(default_factory=Limits)
    reservations: Reservations = Field(default_factory=Reservations)


class Deploy(Part):
    """``deploy``."""

    replicas: Literal[1] = 1
    resources: Resources = Field(default_factory=Resources)


class Attachment(Part):
    """A service's entry of a network."""

    aliases: list[str] = Field(default_factory=list)


class Service(Part):
    """One service. What is said to be unused has no effect here."""

    image: str | None = None
    build: Build | None = None
    command: Words | None = None
    entrypoint: Words | None = None
    environment: Variables = Field(default_factory=dict)
    working_dir: str | None = Field(default=None, pattern=r"^/")
    user: Name | None = Field(default=None, pattern=r"^[A-Za-z0-9_.-]+(:[A-Za-z0-9_.-]+)?$")
    hostname: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]{0,62}$")
    container_name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")
    """Another name in the network of the task; the container itself is named by AgentCompass."""
    platform: str | None = Field(default=None, pattern=r"^[a-z0-9]+/[a-z0-9_]+(/[a-z0-9]+)?$")
    depends_on: dict[str, Dependency] = Field(default_factory=dict)
    healthcheck: Healthcheck | None = None
    volumes: list[Mount] = Field(default_factory=list)
    tmpfs: Texts = Field(default_factory=list)
    networks: dict[str, Attachment] = Field(default_factory=dict)
    cap_drop: list[str] = Field(default_factory=list)
    privileged: bool = False
    init: bool = False
    tty: bool = False
    stdin_open: bool = False
    stop_signal: str | None = None
    shm_size: Bytes = None
    mem_limit: Bytes = None
    cpus: Cores = None
    pids_limit: int | None = Field(default=None, gt=0)
    deploy: Deploy = Field(default_factory=Deploy)
    expose: JsonValue = None
    """Unused: services of a task reach every port of one another."""
    labels: JsonValue = None
    """Unused."""
    restart: str | None = None
    """Unused: a service that ends stays ended, and is told."""
    stop_grace_period: Seconds | None = None
    """Unused: a task that is over is removed."""

    @field_validator("depends_on", "networks", mode="before")
    @classmethod
    def _of_list(cls, value: Any) -> Any:
        if isinstance(value, list):
            return {str(name): {} for name in value}
        return {name: item or {} for name, item in value.items()} if isinstance(value, dict) else value

    @field_validator("build", mode="before")
    @classmethod
    def _of_path(cls, value: Any) -> Any:
        if isinstance(value, dict):
            refusals.require_known("build", value, Build.model_fields, refusals.BUILD)
        return {"context": value} if isinstance(value, str) else value

    @field_validator("privileged")
    @classmethod
    def _not_privileged(cls, value: bool) -> bool:
        if value:
            raise ValueError("services have no rights beyond those of a sandbox")
        return value

    @field_validator("tmpfs")
    @classmethod
    def _plain_tmpfs(cls, value: list[str]) -> list[str]:
        for item in value:
            path, _, options = item.partition(":")
            if not path.startswith("/") or not set(options) <= set("abcdefghijklmnopqrstuvwxyz0123456789=,%"):
                raise ValueError(f"{item!r} is not a path with options such as '/run:size=64m'")
        return value

    @property
    def own_image(self) -> str | None:
        """The image that it names, ``None`` when that is the task's."""
        return None if self.image in (None, "", TASK_IMAGE) else self.image

    @property
    def uses_task_image(self) -> bool:
        """Whether it is the image of the task and nothing else."""
        return self.image == TASK_IMAGE and self.build is None

    @property
    def cores(self) -> float | None:
        """The limit of its processors."""
        return self.cpus or self.deploy.resources.limits.cpus

    @property
    def memory_mb(self) -> int | None:
        """The limit of its memory in MiB."""
        limit = self.mem_limit or self.deploy.resources.limits.memory
        return None if limit is None else max(1, limit // 1024**2)

    @property
    def processes(self) -> int | None:
        """The limit of its processes."""
        return self.pids_limit or self.deploy.resources.limits.pids
