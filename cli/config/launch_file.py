"""Launch files: many requests with shared limits (``agentcompass launch plan.yaml``)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Literal

from pydantic import ConfigDict, Field, JsonValue, ValidationError, field_validator

from ...activities.store import safe_component
from ...contracts.base import Contract
from ...contracts.errors import ConfigurationError
from ...contracts.launch import LaunchRuntime, LaunchSpec
from ...contracts.request import ExecutionSpec, OutputSpec, ReuseSpec
from ...plugins.registry import load_registry
from .arguments import RunArguments
from .checks import Places
from .documents import Document, read_document
from .places import Layer, Origin, Tree
from .problems import file_problems, join_problems
from .projection import request_layer
from .resolve import RegistryLoader, ResolvedRun, resolve_run
from .schema import EnvironmentSection, ModelSection
from .secret_store import StoreLiteral

KINDS = ("benchmark", "harness", "environment")
_COMPONENT_ARGUMENTS = frozenset({"benchmark", "harness", "model", "env"})
"""They stand in the file itself, which therefore is their origin."""


class ComponentSection(Contract):
    """A component: its id, and its parameters beside it."""

    model_config = ConfigDict(extra="allow")

    id: str = ""


class RequestDefaults(Contract):
    """Any key of a request but its name."""

    benchmark: ComponentSection = Field(default_factory=ComponentSection)
    harness: ComponentSection = Field(default_factory=ComponentSection)
    environment: EnvironmentSection = Field(default_factory=EnvironmentSection)
    model: ModelSection = Field(default_factory=ModelSection)
    execution: ExecutionSpec = Field(default_factory=ExecutionSpec)
    runtime: ReuseSpec = Field(default_factory=ReuseSpec)
    output: OutputSpec = Field(default_factory=OutputSpec)

    @field_validator("execution", mode="before")
    @classmethod
    def _no_concurrency(cls, value: object) -> object:
        if isinstance(value, dict) and "task_concurrency" in value:
            raise ValueError("task_concurrency is the launch's, at the top of the file")
        return value


class RequestSection(RequestDefaults):
    """One request of a launch."""

    name: str = Field(min_length=1)


class LaunchFile(Contract):
    """The launch file; see ``docs/configuration.md``."""

    version: Literal[1]
    name: str = ""
    task_concurrency: int = Field(default=32, ge=1, le=100_000)
    runtime: LaunchRuntime = Field(default_factory=LaunchRuntime)
    defaults: RequestDefaults = Field(default_factory=RequestDefaults)
    requests: list[RequestSection] = Field(min_length=1)

    @field_validator("version", mode="before")
    @classmethod
    def _known_version(cls, value: object) -> object:
        if value != 1:
            raise ValueError("launch files of another version than 1 are not known to this AgentCompass")
        return value


@dataclass(frozen=True, kw_only=True)
class LaunchArguments:
    """What the command line says over a launch file; ``None`` leaves it to the file."""

    k: int | None = None
    task_concurrency: int | None = None
    results_dir: str | None = None
    run_id: str | None = None
    timeout_seconds: float | None = None
    cleanup_grace_seconds: float | None = None
    provider_limits: Mapping[str, float] | None = None
    env_open_qps: Mapping[str, float] | None = None
    progress: str | None = None
    log_level: str | None = None
    file_log_level: str | None = None
    reuse: str | bool | None = None
    checkpoint_resume: bool | None = None
    recipe_dirs: Sequence[str] | None = None
    config: Sequence[str] = ()


@dataclass(frozen=True)
class ResolvedLaunch:
    """A launch, ready to be started."""

    spec: LaunchSpec
    runs: list[ResolvedRun]
    warnings: list[str] = field(default_factory=list)


def resolve_launch(
    file: FilePath,
    arguments: LaunchArguments,
    *,
    store_literal: StoreLiteral,
    cwd: FilePath | None = None,
    env: Mapping[str, str] = os.environ,
    registry_loader: RegistryLoader = load_registry,
) -> ResolvedLaunch:
    """Resolve every request of a launch file; nothing is written when one of them is refused.

    Raises:
        UsageError: something is wrong; the message names its place and what to change.
    """
    document = read_document(file)
    launch = _check(document)
    _check_names(document, launch)
    runs = [
        resolve_run(
            _run_arguments(document, arguments, index),
            store_literal=store_literal,
            cwd=cwd,
            env=env,
            registry_loader=registry_loader,
            between=lambda ids, index=index: _layers(document, index),  # type: ignore[misc]
            elsewhere=_COMPONENT_ARGUMENTS,
            request_name=request.name,
        )
        for index, request in enumerate(launch.requests)
    ]
    spec = LaunchSpec(
        name=launch.name,
        task_concurrency=runs[0].task_concurrency,
        runtime=runs[0].runtime,
        requests=[run.request for run in runs],
    )
    warnings = list(dict.fromkeys(text for run in runs for text in run.warnings))
    return ResolvedLaunch(spec, runs, warnings)


def _check(document: Document) -> LaunchFile:
    """The file's own shape. Raises ``ConfigurationError`` that names line and key."""
    origins = {path: Origin(document.file, line, path) for path, line in document.lines.items()}
    origins.setdefault((), Origin(document.file))
    try:
        return LaunchFile.model_validate(document.data)
    except ValidationError as error:
        places = Places(document.data, origins)
        problems = file_problems(error, LaunchFile, places.describe)
        if not problems:
            return _without_values(document)
        raise ConfigurationError(join_problems(problems)) from None


def _without_values(document: Document) -> LaunchFile:
    """The names of a file whose remaining problems lie in values that are not expanded yet."""
    data = document.data
    requests = [{"name": item["name"]} for item in _requests(data)]
    return LaunchFile.model_validate(
        {**{key: data[key] for key in ("version", "name") if key in data}, "requests": requests}
    )


def _requests(data: Tree) -> list[dict[str, JsonValue]]:
    found = data.get("requests")
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _check_names(document: Document, launch: LaunchFile) -> None:
    """Names are unique, also after they have become folders, on file systems that ignore case."""
    seen: dict[str, str] = {}
    for index, request in enumerate(launch.requests):
        folder = safe_component(request.name).casefold()
        if folder in seen:
            line = document.lines.get(("requests", index, "name"))
            raise ConfigurationError(
                f"{Origin(document.file, line)}: request {request.name!r} and {seen[folder]!r} "
                "would share one folder; give one of them another name"
            )
        seen[folder] = request.name


def _run_arguments(document: Document, arguments: LaunchArguments, index: int) -> RunArguments:
    """The component ids of a request, and what the command line says."""
    ids = {kind: _id_of(document, index, kind) for kind in (*KINDS, "model")}
    for kind in ("benchmark", "harness", "model"):
        if not ids[kind]:
            line = document.lines.get(("requests", index))
            raise ConfigurationError(f"{Origin(document.file, line)}: request has no {kind}.id")
    return RunArguments(
        benchmark=ids["benchmark"],
        harness=ids["harness"],
        model=ids["model"],
        env=ids["environment"] or None,
        k=arguments.k,
        task_concurrency=arguments.task_concurrency,
        results_dir=arguments.results_dir,
        run_id=arguments.run_id,
        timeout_seconds=arguments.timeout_seconds,
        cleanup_grace_seconds=arguments.cleanup_grace_seconds,
        provider_limits=arguments.provider_limits,
        env_open_qps=arguments.env_open_qps,
        progress=arguments.progress,
        log_level=arguments.log_level,
        file_log_level=arguments.file_log_level,
        reuse=arguments.reuse,
        checkpoint_resume=arguments.checkpoint_resume,
        recipe_dirs=arguments.recipe_dirs,
        config=arguments.config,
    )


def _id_of(document: Document, index: int, kind: str) -> str:
    """The id in ``requests[index]``, else in ``defaults``."""
    for values in (_requests(document.data)[index], document.data.get("defaults")):
        section = values.get(kind) if isinstance(values, dict) else None
        found = section.get("id") if isinstance(section, dict) else None
        if isinstance(found, str) and found:
            return found
    return ""


def _layers(document: Document, index: int) -> list[Layer]:
    """The launch's limits, its defaults, and the request, lowest precedence first."""
    layers = []
    if "task_concurrency" in document.data:
        written = Origin(document.file, document.lines.get(("task_concurrency",)), ("task_concurrency",))
        limit: Tree = {"execution": {"task_concurrency": document.data["task_concurrency"]}}
        layers.append(Layer(document.file, limit, {("execution", "task_concurrency"): written}))
    runtime = document.data.get("runtime")
    if isinstance(runtime, dict):
        layers.append(request_layer(document, (), {"runtime": runtime}))
    defaults = document.data.get("defaults")
    if isinstance(defaults, dict):
        layers.append(request_layer(document, ("defaults",), _fitting(document, index, defaults)))
    layers.append(request_layer(document, ("requests", index), _requests(document.data)[index]))
    return layers


def _fitting(document: Document, index: int, defaults: Tree) -> Tree:
    """``defaults`` without the sections of components that the request replaces by others."""
    return {
        key: value
        for key, value in defaults.items()
        if key not in KINDS
        or not isinstance(value, dict)
        or value.get("id") in (None, "", _id_of(document, index, key))
    }
