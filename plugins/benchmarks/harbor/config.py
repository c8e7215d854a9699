"""``task.toml`` (schema 1.4). The format grows: unknown keys are kept and named, wrong values are refused."""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from ....contracts.base import MAX_SECONDS
from ....contracts.network import NetworkMode, NetworkPolicy
from ....contracts.task import MOST_STEPS

_STEP_NAME = re.compile(r"[^/\\\x00-\x1f\x7f]+")
_UNITS_MB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}


class Table(BaseModel):
    """A table of the file; keys that are not known here are kept."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    def unknown(self, prefix: str = "") -> list[str]:
        """Names of the keys that nobody here understands, with the tables that they are in."""
        found = [f"{prefix}{name}" for name in self.model_extra or {}]
        for name in type(self).model_fields:
            value = getattr(self, name)
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, Table):
                    found += item.unknown(f"{prefix}{name}.")
        return found


class Networked(Table):
    """What may be reached in a phase; without a mode, nothing is said."""

    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _is_a_policy(self) -> Networked:
        if self.network_mode is None and self.allowed_hosts:
            self.network_mode = NetworkMode.ALLOWLIST
        _ = self.policy
        return self

    @property
    def policy(self) -> NetworkPolicy | None:
        """The policy, ``None`` when the table says nothing."""
        if self.network_mode is None:
            return None
        return NetworkPolicy(network_mode=self.network_mode, allowed_hosts=self.allowed_hosts)


class AgentTable(Networked):
    """``[agent]``; seconds."""

    timeout_sec: float | None = Field(default=None, gt=0, le=MAX_SECONDS)
    user: str | int | None = None


class HealthcheckTable(Table):
    """A command that tells when the environment can be used; seconds."""

    command: str = Field(min_length=1)
    interval_sec: float = Field(default=5.0, ge=0, le=3600)
    timeout_sec: float = Field(default=30.0, gt=0, le=3600)
    start_period_sec: float = Field(default=0.0, ge=0, le=3600)
    start_interval_sec: float = Field(default=5.0, ge=0, le=3600)
    retries: int = Field(default=3, ge=1, le=1000)


class McpTable(Table):
    """``[[environment.mcp_servers]]``: a server for the agent."""

    name: str
    transport: Literal["stdio", "sse", "streamable-http"] = "sse"
    url: str | None = None
    command: str | None = None
    args: list[str] = Field(default_factory=list)
    headers: dict[str, str] = Field(default_factory=dict)

    @field_validator("transport", mode="before")
    @classmethod
    def _other_name(cls, value: object) -> object:
        return "streamable-http" if value == "http" else value


class EnvironmentTable(Networked):
    """``[environment]`` and ``[verifier.environment]``."""

    build_timeout_sec: float = Field(default=600.0, gt=0, le=MAX_SECONDS)
    docker_image: str | None = Field(default=None, min_length=1)
    os: str = "linux"
    cpus: float | None = Field(default=None, gt=0)
    memory_mb: int | None = Field(default=None, gt=0)
    storage_mb: int | None = Field(default=None, gt=0)
    gpus: int = Field(default=0, ge=0)
    gpu_types: list[str] | None = None
    tpu: JsonValue = None
    mcp_servers: list[McpTable] = Field(default_factory=list)
    env: dict[str, str] = Field(default_factory=dict)
    skills_dir: str | None = Field(default=None, pattern=r"^/")
    healthcheck: HealthcheckTable | None = None
    workdir: str | None = Field(default=None, pattern=r"^/")

    @model_validator(mode="before")
    @classmethod
    def _deprecated_keys(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        value = dict(value)
        for name in ("memory", "storage"):
            if name in value:
                value.setdefault(f"{name}_mb", _megabytes(value.pop(name)))
        if value.pop("allow_internet", True) is False:
            value.setdefault("network_mode", NetworkMode.NO_NETWORK.value)
        return value


class CollectTable(Table):
    """``[[verifier.collect]]``: a command that prepares artifacts."""

    command: str = Field(min_length=1)
    service: str = "main"
    timeout_sec: float = Field(default=60.0, gt=0, le=MAX_SECONDS)
    user: str | int | None = None


class VerifierTable(Networked):
    """``[verifier]``; seconds."""

    timeout_sec: float = Field(default=600.0, gt=0, le=MAX_SECONDS)
    env: dict[str, str] = Field(default_factory=dict)
    user: str | int | None = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: EnvironmentTable | None = None
    collect: list[CollectTable] = Field(default_factory=list)

    @property
    def separate(self) -> bool:
        """Whether the verifier gets an environment of its own; a table for one says so where nothing else does."""
        if self.environment_mode is not None:
            return self.environment_mode == "separate"
        return self.environment is not None


class SolutionTable(Table):
    """``[solution]``."""

    env: dict[str, str] = Field(default_factory=dict)


class ArtifactTable(Table):
    """A declared artifact; a bare string is its source."""

    source: str
    destination: str = ""
    exclude: list[str] = Field(default_factory=list)
    service: str = "main"

    @model_validator(mode="before")
    @classmethod
    def _from_string(cls, value: Any) -> Any:
        return {"source": value} if isinstance(value, str) else value


class TaskTable(Table):
    """``[task]``: who it is from."""

    name: str | None = None
    version: str | None = None
    description: str = ""
    authors: JsonValue = None
    keywords: list[str] = Field(default_factory=list)


class StepTable(Table):
    """``[[steps]]``: what a step says beyond the task."""

    name: str = Field(min_length=1, max_length=200)
    agent: AgentTable = Field(default_factory=AgentTable)
    verifier: VerifierTable = Field(default_factory=VerifierTable)
    min_reward: float | dict[str, float] | None = None
    healthcheck: HealthcheckTable | None = None
    artifacts: list[ArtifactTable] = Field(default_factory=list)

    @field_validator("name")
    @classmethod
    def _is_a_folder(cls, value: str) -> str:
        if not _STEP_NAME.fullmatch(value) or value.strip(". ") == "":
            raise ValueError(f"{value!r} is not the name of a folder below steps/")
        return value

    @property
    def thresholds(self) -> dict[str, float]:
        """What each reward has to reach for the next step to follow; a number is about ``reward``."""
        if self.min_reward is None:
            return {}
        return self.min_reward if isinstance(self.min_reward, dict) else {"reward": self.min_reward}


class TaskConfig(Table):
    """The whole file."""

    schema_version: str = "1.4"
    source: JsonValue = None
    task: TaskTable = Field(default_factory=TaskTable)
    metadata: dict[str, Any] = Field(default_factory=dict)
    agent: AgentTable = Field(default_factory=AgentTable)
    verifier: VerifierTable = Field(default_factory=VerifierTable)
    environment: EnvironmentTable = Field(default_factory=EnvironmentTable)
    solution: SolutionTable = Field(default_factory=SolutionTable)
    artifacts: list[ArtifactTable] = Field(default_factory=list)
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    steps: list[StepTable] = Field(default_factory=list, max_length=MOST_STEPS)

    @model_validator(mode="before")
    @classmethod
    def _older_names(cls, value: Any) -> Any:
        if isinstance(value, dict) and "version" in value and "schema_version" not in value:
            value = {"schema_version" if key == "version" else key: item for key, item in value.items()}
        return value

    @field_validator("steps")
    @classmethod
    def _different_steps(cls, value: list[StepTable]) -> list[StepTable]:
        names = [unicodedata.normalize("NFC", step.name).casefold() for step in value]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"two steps are called {repeated[0]!r}")
        return value

    @field_validator("schema_version")
    @classmethod
    def _of_first_generation(cls, value: str) -> str:
        if value.partition(".")[0] != "1":
            raise ValueError(f"schema version {value!r} is not one of 1.x, which are read here")
        return value

    @property
    def category(self) -> str:
        """``metadata.category``, else the difficulty."""
        for name in ("category", "difficulty"):
            value = self.metadata.get(name)
            if isinstance(value, str) and value.strip():
                return value.strip()
        return ""


def _megabytes(value: object) -> int:
    """``2G`` and the like, or bytes. Raises ``ValueError``."""
    text = str(value).strip().upper().removesuffix("B").removesuffix("I")
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS_MB else (text, "")
    try:
        size = float(number) * (_UNITS_MB[unit] if unit else 1 / 1024**2)
    except ValueError:
        raise ValueError(f"{value!r} is not a size such as '2G' or '512M'") from None
    if not 0 < size < float("inf"):
        raise ValueError(f"{value!r} is not a size")
    return max(1, round(size))
