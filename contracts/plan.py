"""The execution plan of an attempt: everything resolved, before anything is opened."""

from __future__ import annotations

from pydantic import Field, JsonValue

from .artifacts import ArtifactCommand, ArtifactLimits, ArtifactSpec
from .base import Contract
from .network import NetworkPolicy
from .request import EnvironmentSetup, EnvironmentSpec, EvaluationMode, ResourceRequirements


class BenchmarkPlan(Contract):
    """What the benchmark settles for a task. Budgets are defaults that a request may override."""

    run_timeout_seconds: float | None = Field(default=None, gt=0)
    evaluation_timeout_seconds: float | None = Field(default=None, gt=0)
    setup: EnvironmentSetup = Field(default_factory=EnvironmentSetup)
    """How the task's environment is made, where the request says nothing."""
    evaluation_setup: EnvironmentSetup | None = None
    """How the verifier's own environment is made (mode ``fresh``); ``None``: like the task's."""
    evaluation_resources: ResourceRequirements | None = None
    """Of the verifier's own environment; ``None``: like the task's."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)


class HarnessPlan(Contract):
    """What the harness settles for a task."""

    run_timeout_seconds: float | None = Field(default=None, gt=0)
    quick: bool = True
    """False when the hooks that the harness calls quick are not quick for this task."""
    settings: dict[str, JsonValue] = Field(default_factory=dict)


class Budgets(Contract):
    """Seconds that each stage may take, multipliers applied; ``None`` is no limit."""

    run_timeout_seconds: float | None = None
    evaluation_timeout_seconds: float | None = None
    harness_result_timeout_seconds: float = 60.0
    artifact_collect_timeout_seconds: float | None = None


class RetryPlan(Contract):
    """The retry policy that holds for this attempt."""

    max_retries: int = 0
    retry_pattern_list: list[str] | None = None
    min_delay_seconds: float = 5.0
    max_delay_seconds: float = 60.0


class ExecutionPlan(Contract):
    """How one attempt of one task is carried out; a retry reuses it, the next attempt plans again."""

    task_id: str
    attempt: int = Field(ge=1)
    environment: EnvironmentSpec
    evaluation_environment: EnvironmentSpec | None = None
    evaluation_environment_mode: EvaluationMode = EvaluationMode.NONE
    run_network_policy: NetworkPolicy = Field(default_factory=NetworkPolicy)
    evaluation_network_policy: NetworkPolicy = Field(default_factory=NetworkPolicy)
    benchmark_plan: BenchmarkPlan = Field(default_factory=BenchmarkPlan)
    harness_plan: HarnessPlan = Field(default_factory=HarnessPlan)
    budgets: Budgets = Field(default_factory=Budgets)
    retry: RetryPlan = Field(default_factory=RetryPlan)
    keep_environment: bool = False
    artifacts: list[ArtifactSpec] = Field(default_factory=list)
    artifact_collect: list[ArtifactCommand] = Field(default_factory=list)
    artifact_limits: ArtifactLimits = Field(default_factory=ArtifactLimits)
    save_artifacts: bool = True
    applied_recipes: list[str] = Field(default_factory=list)

    @property
    def baseline_network_policy(self) -> NetworkPolicy:
        """The policy with which environments are opened; one that nobody set is ``public``."""
        return self.environment.network_policy or NetworkPolicy()
