"""A request: one (model, benchmark, harness, environment) evaluation, as configured.

Field names and defaults follow AgentCompass and section 2 of the specification. Component
parameters are open maps here; each component validates its own with its ``Params`` model.
Secrets are references (``env:NAME``, ``file:/path``), never values: see ``contracts/secrets.py``.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import AliasChoices, ConfigDict, Field, JsonValue, field_validator, model_validator

from .artifacts import ArtifactCommand, ArtifactLimits, ArtifactSpec, check_destinations
from .base import MAX_SECONDS, Contract
from .network import NetworkPolicy

JsonMap = dict[str, JsonValue]
NO_HARNESS = "none"
"""The harness id of a request whose benchmark runs its tasks itself."""

MAX_MULTIPLIER = 1000.0

_ENV_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


class ModelProtocol(StrEnum):
    """The wire protocols of the built-in model clients, and answers from a file instead of one."""

    OPENAI_CHAT = "openai-chat"
    OPENAI_RESPONSES = "openai-responses"
    ANTHROPIC = "anthropic"
    SCRIPTED = "scripted"


class ModelSpec(Contract):
    """The evaluated model: an endpoint and how to call it."""

    id: str = Field(min_length=1)
    base_url: str = ""
    api_key: str = ""
    """A secret reference; empty when the endpoint needs none."""
    api_protocol: str | list[str] = ""
    """A protocol, or protocols in order of preference; ``auto`` is stored as ``""``."""
    params: JsonMap = Field(default_factory=dict)

    @field_validator("base_url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        if not value:
            return value
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{value!r} is not an http(s) URL")
        if parts.username or parts.password:
            raise ValueError("credentials inside a URL would be recorded; use api_key instead")
        return value.rstrip("/")

    @field_validator("api_protocol")
    @classmethod
    def _check_protocol(cls, value: str | list[str]) -> str | list[str]:
        if value in ("", "auto"):
            return ""
        known = [item.value for item in ModelProtocol]
        for item in [value] if isinstance(value, str) else value:
            if item not in known:
                raise ValueError(f"{item!r} is not one of {', '.join(known)} or auto")
        return value


class BenchmarkSpec(Contract):
    """Which benchmark, with which parameters."""

    id: str = Field(min_length=1)
    params: JsonMap = Field(default_factory=dict)


class HarnessSpec(Contract):
    """Which harness, with which parameters."""

    id: str = Field(min_length=1)
    params: JsonMap = Field(default_factory=dict)


class EnvironmentSetup(Contract):
    """How a sandbox is made; each provider says which keys it honours."""

    image: str | None = None
    build_context: str | None = None
    """An absolute folder on the worker with a Dockerfile; the image is built from it."""
    dockerfile: str | None = None
    """The Dockerfile's path below ``build_context``; default ``Dockerfile``."""
    compose_file: str | None = None
    """A compose file on the worker, absolute: the sandbox is its service ``main``, the others run beside it."""
    build_timeout_seconds: float | None = Field(default=None, gt=0, le=MAX_SECONDS)
    workdir: str | None = None

    @field_validator("build_context", "compose_file", "workdir")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith("/"):
            raise ValueError(f"{value!r} must be an absolute path")
        return value


class ResourceRequirements(Contract):
    """What a sandbox needs: CPU cores, MiB of memory and storage, number of GPUs."""

    cpu: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    memory_mb: int | None = Field(default=None, gt=0)
    storage_mb: int | None = Field(default=None, gt=0)
    gpu: int | None = Field(default=None, ge=0)


class EvaluationMode(StrEnum):
    """Where the verifier runs: in the task's environment, nowhere, or in a fresh one."""

    REUSE = "reuse"
    NONE = "none"
    FRESH = "fresh"


def check_env_variables(value: dict[str, str] | None) -> dict[str, str] | None:
    """Raises ``ValueError`` for what no process can have in its environment; the message holds no value."""
    for name, text in (value or {}).items():
        if not _ENV_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid environment variable name")
        if "\0" in text:
            raise ValueError(f"the value of {name} holds a NUL character")
    return value


class EnvironmentSpec(Contract):
    """Which environment, with its parameters, policies and variables."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    id: str = Field(min_length=1)
    params: JsonMap = Field(default_factory=dict)
    setup: EnvironmentSetup = Field(default_factory=EnvironmentSetup)
    resources: ResourceRequirements = Field(default_factory=ResourceRequirements)
    network_policy: NetworkPolicy | None = None
    run_network_policy: NetworkPolicy | None = None
    verifier_network_policy: NetworkPolicy | None = Field(
        default=None, validation_alias=AliasChoices("verifier_network_policy", "evaluation_network_policy")
    )
    evaluation_environment_mode: EvaluationMode | None = None
    env_variables: dict[str, str] = Field(default_factory=dict)
    run_env_variables: dict[str, str] = Field(default_factory=dict)
    evaluation_env_variables: dict[str, str] = Field(default_factory=dict)
    evaluation_environment_env_variables: dict[str, str] | None = None

    @field_validator(
        "env_variables",
        "run_env_variables",
        "evaluation_env_variables",
        "evaluation_environment_env_variables",
    )
    @classmethod
    def _check_variables(cls, value: dict[str, str] | None) -> dict[str, str] | None:
        return check_env_variables(value)


class AttemptStrategy(StrEnum):
    """``avg`` runs all k attempts; ``pass`` stops at the first success."""

    AVG = "avg"
    PASS = "pass"


class AttemptsSpec(Contract):
    """How many semantic attempts a task gets, and when to stop."""

    k: int = Field(default=1, ge=1, le=10_000)
    strategy: AttemptStrategy = AttemptStrategy.AVG


class AnalysisSpec(Contract):
    """Which analyzers run after scoring, with their parameters by analyzer id."""

    analyzers: list[str] | None = None
    """``None`` runs every installed one that needs no parameters, an empty list none."""
    params: dict[str, JsonMap] = Field(default_factory=dict)
    timeout_seconds: float = Field(default=60.0, gt=0, le=MAX_SECONDS)
    """How long one analyzer may take for one attempt."""


class ExecutionSpec(Contract):
    """How attempts are executed. Times are in seconds."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    task_concurrency: int = Field(default=32, ge=1, le=100_000)
    attempts: AttemptsSpec = Field(default_factory=AttemptsSpec)
    enabled_recipes: list[str] = Field(default_factory=list)
    keep_environment: bool = False
    enable_analysis: bool = True
    analysis_params: AnalysisSpec = Field(default_factory=AnalysisSpec)
    max_retries: int = Field(default=0, ge=0, le=1000)
    retry_pattern_list: list[str] | None = None
    retry_min_delay_seconds: float = Field(default=5.0, ge=0, le=MAX_SECONDS)
    retry_max_delay_seconds: float = Field(default=60.0, ge=0, le=MAX_SECONDS)
    run_timeout_seconds: float | None = Field(default=None, gt=0, le=MAX_SECONDS)
    evaluation_timeout_seconds: float | None = Field(default=None, gt=0, le=MAX_SECONDS)
    timeout_multiplier: float = Field(default=1.0, gt=0, le=MAX_MULTIPLIER)
    run_timeout_multiplier: float | None = Field(default=None, gt=0, le=MAX_MULTIPLIER)
    evaluation_timeout_multiplier: float | None = Field(default=None, gt=0, le=MAX_MULTIPLIER)
    harness_result_timeout_seconds: float = Field(
        default=60.0,
        gt=0,
        le=MAX_SECONDS,
        validation_alias=AliasChoices("harness_result_timeout_seconds", "runresult_collect_timeout_seconds"),
    )
    artifact_collect_timeout_seconds: float | None = Field(default=None, gt=0, le=MAX_SECONDS)
    artifact_limits: ArtifactLimits = Field(default_factory=ArtifactLimits)
    save_artifacts: bool | None = None
    """``None`` transfers declared artifacts in mode ``fresh``, which restores them, and in no other."""
    artifacts: list[ArtifactSpec] | None = None
    artifact_collect: list[ArtifactCommand] | None = None

    _check_artifacts = field_validator("artifacts")(check_destinations)

    @model_validator(mode="before")
    @classmethod
    def _replaced_keys(cls, value: Any) -> Any:
        if isinstance(value, dict) and "download_artifacts" in value:
            raise ValueError("execution.download_artifacts is now called execution.save_artifacts")
        return value

    @field_validator("retry_pattern_list")
    @classmethod
    def _check_patterns(cls, value: list[str] | None) -> list[str] | None:
        for pattern in value or []:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
        return value

    @model_validator(mode="after")
    def _check_delays(self) -> ExecutionSpec:
        if self.retry_max_delay_seconds < self.retry_min_delay_seconds:
            raise ValueError("retry_max_delay_seconds is below retry_min_delay_seconds")
        return self


class ReuseSpec(Contract):
    """Whether, and from which run, finished work is taken over."""

    reuse: bool = False
    reuse_run_id: str = ""
    checkpoint_resume: bool = True


class OutputSpec(Contract):
    """Where the run directory goes below the results directory."""

    run_name: str = ""
    run_id: str = ""


class ScheduledRun(Contract):
    """Which schedule started a run, and for when."""

    schedule: str
    scheduled_at: str
    """ISO 8601, in UTC."""
    fail_on_regression: bool = False
    """Whether the launch fails when this run is worse than the one before it."""


class RequestMetadata(Contract):
    """Where the request came from."""

    config_path: str = ""
    recipe_dirs: list[str] = Field(default_factory=list)
    request_name: str = ""
    explicit: list[str] = Field(default_factory=list)
    """Settings of ``execution`` that somebody wrote down (``execution.max_retries``), so that a recipe
    does not change one whose value happens to be the default."""
    scheduled: ScheduledRun | None = None
    """Set for runs that a schedule started."""


class RunRequest(Contract):
    """One evaluation request, all configuration layers merged."""

    benchmark: BenchmarkSpec
    harness: HarnessSpec
    environment: EnvironmentSpec
    model: ModelSpec
    execution: ExecutionSpec = Field(default_factory=ExecutionSpec)
    runtime: ReuseSpec = Field(default_factory=ReuseSpec)
    output: OutputSpec = Field(default_factory=OutputSpec)
    metadata: RequestMetadata = Field(default_factory=RequestMetadata)

    @property
    def harness_free(self) -> bool:
        """True when the benchmark runs its tasks itself (harness id ``none``)."""
        return self.harness.id == NO_HARNESS


ProgressMode = Literal["auto", "plain", "none"]
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]
