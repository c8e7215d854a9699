"""The files of a run directory, one model each. See ``docs/run-directory.md``.

Readers accept older versions at their boundary (``activities/store/legacy.py``); these models
are what is written today.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field, JsonValue

from .analyzer import AnalyzerResult
from .base import Contract
from .issues import Issue
from .network import NetworkPolicy
from .plan import ExecutionPlan
from .request import AttemptsSpec, EvaluationMode
from .result import ResultMeta, RunResult, StepResult, TaskStatus, Trajectory
from .task import PreparedTask

TASK_SCHEMA: Final = "agentcompass.task.v3"
RUN_INFO_SCHEMA: Final = "agentcompass.run_info.v3"
EVALUATION_CHECKPOINT_SCHEMA: Final = "agentcompass.evaluation_checkpoint.v4"
RETRY_SCHEMA: Final = "agentcompass.retry.v1"
ATTEMPT_SCHEMA: Final = "agentcompass.attempt_checkpoint.v1"
ANALYSIS_SCHEMA: Final = "agentcompass.analysis_summary.v1"

RunStatus = Literal["running", "paused", "summarizing", "completed", "failed", "cancelled", "timed_out"]


class Identity(Contract):
    """What must be equal for a result to be taken over by another run (sha256, hex)."""

    task_digest: str
    plan_digest: str
    settings_digest: str = ""
    """Of parameters of model, harness and benchmark. It may differ, which is told; empty in older records."""


class AttemptRecord(Contract):
    """The final result of one semantic attempt."""

    status: TaskStatus
    metrics: dict[str, bool | int | float] = Field(default_factory=dict)
    final_answer: JsonValue = None
    trajectory: Trajectory | None = None
    issues: list[Issue]
    artifacts: dict[str, JsonValue] = Field(default_factory=dict)
    meta: ResultMeta = Field(default_factory=ResultMeta)
    extra: dict[str, JsonValue] = Field(default_factory=dict)
    analysis_result: dict[str, AnalyzerResult] = Field(default_factory=dict)
    """By analyzer id; filled in the background, after the result is on disk."""
    steps: list[StepResult] = Field(default_factory=list)
    """Of a task that is given step by step: those that were begun. What stands beside them is of the whole."""
    plan: ExecutionPlan | None = None
    identity: Identity | None = None


class TaskRecord(Contract):
    """``details/<task>.json``: one task with its attempts, keyed by number from ``"1"``."""

    schema_version: Literal["agentcompass.task.v3"] = TASK_SCHEMA
    task_id: str
    category: str = ""
    ground_truth: JsonValue = None
    attempt_plan: AttemptsSpec
    stopped_early: bool = False
    retry_count: int = 0
    retry_counts: dict[str, int] = Field(default_factory=dict)
    attempts: dict[str, AttemptRecord]


class DamagedRecord(Contract):
    """A task record that is there and cannot be read."""

    task_id: str
    """As the task list has it, else from the name of the file; empty for the task list itself."""
    reason: str


class AttemptCheckpoint(Contract):
    """A finished attempt of a task whose other attempts are still to come."""

    schema_version: Literal["agentcompass.attempt_checkpoint.v1"] = ATTEMPT_SCHEMA
    task_id: str
    category: str = ""
    ground_truth: JsonValue = None
    attempt: int
    retry_count: int = 0
    record: AttemptRecord


class RetryRecord(Contract):
    """``retry_details/…json``: an execution that was discarded in favour of another one."""

    schema_version: Literal["agentcompass.retry.v1"] = RETRY_SCHEMA
    task_id: str
    category: str = ""
    attempt: int
    execution: int
    retry: int
    max_retries: int
    retry_delay_seconds: float
    stage: str
    scope: Literal["attempt", "evaluate"]
    matched_pattern: str
    """``"fatal"``, the regular expression that matched, or ``"host_lost"``."""
    loss: int = 0
    """Counts executions that were lost with their host: those are no retries; 0 for a retry."""
    issues: list[Issue]
    discarded_result: RunResult | None = None
    plan: ExecutionPlan | None = None


class EvaluationCheckpoint(Contract):
    """An unscored but complete execution that another run may take up at the evaluation."""

    schema_version: Literal["agentcompass.evaluation_checkpoint.v4"] = EVALUATION_CHECKPOINT_SCHEMA
    task_id: str
    attempt: int
    mode: EvaluationMode
    prepared: PreparedTask
    result: RunResult
    execution: int = 1
    """Whose artifact directory holds the files that were collected."""
    identity: Identity
    run_network_policy: NetworkPolicy
    evaluation_network_policy: NetworkPolicy
    source_run: str
    """The run that the execution took place in."""
    digests: dict[str, str] = Field(default_factory=dict)
    """sha256 of ``prepared`` and ``result``, of ``artifacts/<name>`` for each file or folder that was
    collected (of a folder see ``activities/artifacts/digest.py``) and of ``inputs/<path>`` for each
    local file that the prepared task names."""


class PlanSummary(Contract):
    """What ``run_info.json`` and ``execution_plan_resolved`` tell of a plan."""

    environment: dict[str, JsonValue]
    evaluation_environment: dict[str, JsonValue] | None = None
    evaluation_environment_mode: EvaluationMode = EvaluationMode.NONE
    run_network_policy: NetworkPolicy
    verifier_network_policy: NetworkPolicy
    applied_recipes: list[str] = Field(default_factory=list)


class AttemptPlans(Contract):
    """Plans of one task by attempt number."""

    attempts: dict[str, PlanSummary] = Field(default_factory=dict)


class OtherSettings(Contract):
    """Work that was taken over although it was made with other settings than this run's."""

    attempts: int
    differences: list[str] = Field(default_factory=list)
    """Which settings those are, one line each, as far as the run that it was taken from tells."""

    @property
    def note(self) -> str:
        """For people: how many attempts, and which settings."""
        named = "; ".join(self.differences)
        what = f"{self.attempts} {'attempt' if self.attempts == 1 else 'attempts'} made with other settings"
        return f"{what} ({named})" if named else what


class ReusedFrom(Contract):
    """The run that finished work was taken from."""

    run_id: str = ""
    path: str = ""
    other_settings: OtherSettings | None = None
    """Reuse goes by content, not by settings; a number over both has to say so."""


class TemporalInfo(Contract):
    """Where the run lives in Temporal."""

    namespace: str
    workflow_id: str
    run_id: str
    ui_address: str | None = None


class RunInfo(Contract):
    """``run_info.json``: what was asked for, and how it ended."""

    schema_version: Literal["agentcompass.run_info.v3"] = RUN_INFO_SCHEMA
    run_id: str
    launch_id: str = ""
    started_at: str
    request: dict[str, JsonValue]
    """The merged request, secrets masked."""
    reused_from: ReusedFrom | None = None
    resolved_execution_plans: dict[str, AttemptPlans] = Field(default_factory=dict)
    temporal: TemporalInfo | None = None
    agentcompass_version: str = ""
    status: RunStatus | None = None
    finished_at: str | None = None
    error: str | None = None


class RunParams(Contract):
    """``params.json``: the part of the request that a new summary needs."""

    model: dict[str, JsonValue]
    benchmark: dict[str, JsonValue]
    output: dict[str, JsonValue] = Field(default_factory=dict)


class ValueTotals(Contract):
    """Findings of a label whose value is a number."""

    count: int = 0
    total: float = 0.0
    minimum: float = 0.0
    maximum: float = 0.0


class LabelTotals(Contract):
    """How often an analyzer gave a label. ``attempts`` and ``tasks`` count each of them once."""

    label: str
    findings: int = 0
    attempts: int = 0
    tasks: int = 0
    values: ValueTotals | None = None
    examples: list[str] = Field(default_factory=list)
    """Ids of the first tasks with this label."""
    categories: dict[str, int] = Field(default_factory=dict)
    """Attempts by category of the task."""


class AnalyzerTotals(Contract):
    """What one analyzer did over a run. It looked at ``attempts``; of those it ``failed`` on some."""

    analyzer: str
    attempts: int = 0
    failed: int = 0
    labels: list[LabelTotals] = Field(default_factory=list)
    """The most frequent first."""
    errors: list[str] = Field(default_factory=list)
    """The first different reasons of failures."""


class AnalysisSummary(Contract):
    """``analysis_summary.json``: findings counted by label, beside what they cover."""

    schema_version: Literal["agentcompass.analysis_summary.v1"] = ANALYSIS_SCHEMA
    benchmark: str
    tasks: int = 0
    """Finished tasks."""
    attempts: int = 0
    """Their attempts."""
    analyzed_attempts: int = 0
    """Those of them that at least one analyzer looked at."""
    analyzers: list[AnalyzerTotals] = Field(default_factory=list)


EventName = Literal[
    "run_started",
    "tasks_loaded",
    "reuse_loaded",
    "task_started",
    "phase_changed",
    "attempt_started",
    "execution_plan_resolved",
    "attempt_retry",
    "attempt_finished",
    "partial_saved",
    "task_finished",
    "summary_started",
    "run_finished",
]


class ProgressEvent(Contract):
    """One line of ``progress.jsonl``. ``seq`` counts from 1; ``key`` makes a repeated event one event."""

    seq: int = 0
    key: str
    run_id: str
    event: EventName
    timestamp: float
    task_id: str | None = None
    category: str | None = None
    attempt: int | None = None
    phase: str | None = None
    status: str | None = None
    payload: dict[str, Any] = Field(default_factory=dict)
    orchestration_id: str | None = None
    request_key: str | None = None
    request_name: str | None = None
    request_index: int | None = None


class ActiveTask(Contract):
    """What a running task is doing."""

    category: str | None = None
    phase: str = "running"
    attempt: int | None = None
    updated_at: float


class ProgressSnapshot(Contract):
    """``progress.json``: the state after the latest event; derivable from ``progress.jsonl``."""

    run_id: str
    model: str = ""
    benchmark: str = ""
    harness: str = ""
    environment: str = ""
    status: str = "running"
    total_tasks: int = 0
    reused_tasks: int = 0
    pending_tasks: int = 0
    running_tasks: int = 0
    finished_tasks: int = 0
    completed_tasks: int = 0
    failed_tasks: int = 0
    error_tasks: int = 0
    warning_tasks: int = 0
    skipped_tasks: int = 0
    attempts_started: int = 0
    attempts_finished: int = 0
    partials_saved: int = 0
    current_phase_counts: dict[str, int] = Field(default_factory=dict)
    active_tasks: dict[str, ActiveTask] = Field(default_factory=dict)
    started_at: float = 0.0
    elapsed_seconds: float = 0.0
    updated_at: float = 0.0
    last_seq: int = 0
