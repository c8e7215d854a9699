"""What a configuration file may hold, and the whole that the layers make together."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from ...contracts.base import Contract
from ...contracts.launch import LaunchRuntime
from ...contracts.request import (
    BenchmarkSpec,
    EnvironmentSpec,
    ExecutionSpec,
    HarnessSpec,
    JsonMap,
    ModelSpec,
    OutputSpec,
    ReuseSpec,
)


class RuntimeSection(LaunchRuntime, ReuseSpec):
    """Section ``runtime``: what a launch shares, and which finished work a run takes over."""


class EnvironmentSection(EnvironmentSpec):
    """Section ``environments.<id>``: keys of the environment and the provider's own, side by side."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    id: str = ""


class ModelSection(ModelSpec):
    """Section ``model``: how to call a model, whichever it is."""

    id: str = ""


class ConfigFile(Contract):
    """A configuration file; every section may be left out."""

    benchmarks: dict[str, JsonMap] = Field(default_factory=dict)
    """Parameters by benchmark id."""
    harnesses: dict[str, JsonMap] = Field(default_factory=dict)
    """Parameters by harness id."""
    environments: dict[str, EnvironmentSection] = Field(default_factory=dict)
    """Settings and parameters by environment id."""
    model: ModelSection = Field(default_factory=ModelSection)
    execution: ExecutionSpec = Field(default_factory=ExecutionSpec)
    runtime: RuntimeSection = Field(default_factory=RuntimeSection)
    task_concurrency: int = Field(default=32, ge=1, le=100_000)
    """The same setting as ``execution.task_concurrency``."""


class EffectiveConfig(Contract):
    """All layers merged, for one run."""

    benchmark: BenchmarkSpec
    harness: HarnessSpec
    environment: EnvironmentSpec
    model: ModelSpec
    execution: ExecutionSpec = Field(default_factory=ExecutionSpec)
    runtime: RuntimeSection = Field(default_factory=RuntimeSection)
    output: OutputSpec = Field(default_factory=OutputSpec)


ENVIRONMENT_KEYS = frozenset(EnvironmentSpec.model_fields) - {"id", "params"} | {"evaluation_network_policy"}
"""The keys of an ``environments.<id>`` section that are not parameters of the provider."""
