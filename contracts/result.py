"""What an execution returns: answer, trajectory, observations and issues."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from pydantic import Field, JsonValue

from .base import Contract
from .issues import Issue, IssuePhase, Severity


class TaskStatus(StrEnum):
    """How an attempt ended; says nothing about right or wrong."""

    COMPLETED = "completed"
    RUN_ERROR = "run_error"
    EVAL_ERROR = "eval_error"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


class ToolCall(Contract):
    """A call that the agent asked for."""

    id: str = ""
    name: str
    arguments: JsonValue = None


class Observation(Contract):
    """What came back for a tool call or an environment step."""

    tool_call_id: str | None = None
    content: JsonValue = None


class Usage(Contract):
    """Tokens of one model call, as reported by the endpoint; ``None`` where it reported nothing."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class TrajectoryStep(Contract):
    """One step; ``step_id`` counts from 1 without gaps, times are Unix seconds and seconds."""

    step_id: int = Field(ge=1)
    source: str = Field(pattern="^(system|user|agent)$")
    timestamp: float | None = None
    message: JsonValue = ""
    reasoning: str | None = None
    tool_calls: list[ToolCall] = Field(default_factory=list)
    observations: list[Observation] = Field(default_factory=list)
    model: str | None = None
    usage: Usage | None = None
    latency_seconds: float | None = None
    stop_reason: str | None = None
    cost_usd: float | None = None
    extra: dict[str, JsonValue] = Field(default_factory=dict)


class Trajectory(Contract):
    """The steps of an agent, in order."""

    steps: list[TrajectoryStep] = Field(default_factory=list)
    extra: dict[str, JsonValue] = Field(default_factory=dict)


class ResultMeta(Contract):
    """Facts about the execution; free maps for the benchmark and the harness."""

    benchmark: dict[str, JsonValue] = Field(default_factory=dict)
    harness: dict[str, JsonValue] = Field(default_factory=dict)
    timings: dict[str, float] = Field(default_factory=dict)
    """Seconds by phase, measured by the runtime."""


class StepResult(Contract):
    """What became of a step of a task that is given step by step."""

    name: str
    status: TaskStatus
    metrics: dict[str, JsonValue] = Field(default_factory=dict)
    """Empty for a step that has no score."""
    final_answer: JsonValue = None
    trajectory_steps: list[int] = Field(default_factory=list)
    """First and last ``step_id`` in the trajectory that are this step's; empty without any."""
    issues: list[Issue] = Field(default_factory=list)
    artifacts: dict[str, JsonValue] = Field(default_factory=dict)
    meta: ResultMeta = Field(default_factory=ResultMeta)
    extra: dict[str, JsonValue] = Field(default_factory=dict)


DECLARED_ARTIFACTS: Final = "declared_artifacts"
"""In ``artifacts``: the manifest of what was collected."""
REUSE_HISTORY: Final = "reuse_history"
"""In ``artifacts``: where a result that was taken over comes from."""


class RunResult(Contract):
    """The outcome of one execution, first from the harness, then scored by the benchmark.

    ``metrics`` holds JSON booleans and finite numbers only; it is empty until evaluation.
    """

    task_id: str
    status: TaskStatus = TaskStatus.COMPLETED
    category: str = ""
    final_answer: JsonValue = None
    ground_truth: JsonValue = None
    trajectory: Trajectory | None = None
    issues: list[Issue] = Field(default_factory=list)
    artifacts: dict[str, JsonValue] = Field(default_factory=dict)
    metrics: dict[str, JsonValue] = Field(default_factory=dict)
    meta: ResultMeta = Field(default_factory=ResultMeta)
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    steps: list[StepResult] = Field(default_factory=list)
    """Those that were begun, of a task that is given step by step."""

    @property
    def has_fatal(self) -> bool:
        """True when an issue invalidates the result."""
        return any(issue.severity is Severity.FATAL for issue in self.issues)

    def with_issues(self, issues: list[Issue]) -> RunResult:
        """A copy with ``issues`` appended and the status that follows from all of them."""
        merged = [*self.issues, *(issue for issue in issues if issue not in self.issues)]
        return self.model_copy(update={"issues": merged, "status": status_of(merged, self.status)})


def status_of(issues: list[Issue], status: TaskStatus) -> TaskStatus:
    """The status that ``issues`` imply: an ERROR or FATAL makes a completed result an error."""
    if status in (TaskStatus.SKIPPED, TaskStatus.CANCELLED):
        return status
    phases = {issue.phase for issue in issues if issue.severity is not Severity.WARNING}
    if phases - {IssuePhase.EVALUATE, IssuePhase.CLEANUP}:
        return TaskStatus.RUN_ERROR
    if IssuePhase.EVALUATE in phases:
        return TaskStatus.EVAL_ERROR
    return status
