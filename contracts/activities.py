"""The activities that workflows call: their names, inputs and outputs.

Workflows know activities by these stubs only; ``tests/unit/test_activity_stubs.py`` holds the
implementations to them. Inputs and outputs stay small: what an activity makes lies in the run
directory, and the next activity is told where.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, Field

from .base import Contract
from .ending import ANY_PHASE as ANY_PHASE
from .ending import EndPhaseInput as EndPhaseInput
from .ending import OperatorEnd as OperatorEnd
from .environment import EnvironmentHandle
from .issues import Issue
from .launch import LaunchRuntime, RequestResult
from .launch_state import AwaitedRequests, AwaitRequestsInput
from .launch_state import LaunchSummaryInput as LaunchSummaryInput
from .launch_state import PreflightInput as PreflightInput
from .launch_state import PreflightReport as PreflightReport
from .launch_state import SavedLaunchSummary as SavedLaunchSummary
from .phases import Phase
from .plan import RetryPlan
from .records import RunStatus, TemporalInfo
from .references import AttemptRef as AttemptRef
from .references import ExecutionRef as ExecutionRef
from .references import environment_id as environment_id
from .request import AttemptsSpec, EvaluationMode, RunRequest
from .upkeep import PresenceInput, ReapInput, SweepReport

InputT = TypeVar("InputT", bound=BaseModel)
OutputT = TypeVar("OutputT", bound=BaseModel)


@dataclass(frozen=True)
class ActivityStub(Generic[InputT, OutputT]):
    """A typed reference to an activity."""

    name: str
    input: type[InputT]
    output: type[OutputT]


class Done(Contract):
    """The output of an activity that has nothing to tell."""


class PrepareRequestInput(Contract):
    """Reserve the run directory, load and select the tasks, write them down."""

    launch_id: str
    request_key: str
    request_index: int
    request_count: int
    request: RunRequest
    runtime: LaunchRuntime
    temporal: TemporalInfo


class PreparedRequest(Contract):
    """Where the run is and how much there is to do."""

    run_dir: str
    run_id: str
    total_tasks: int
    reused_tasks: int = 0
    parallel_attempts: bool = False
    analyzes: bool = False
    """True when an analyzer looks at finished tasks."""


class PendingTasksInput(Contract):
    """One page of tasks without a finished record, from ``offset`` in the task list."""

    run_dir: str
    offset: int
    limit: int


class FinishedAttempt(Contract):
    """The outcome of an attempt, as far as scheduling needs it."""

    attempt: int
    success: bool | None = None
    """The primary metric of a binary benchmark; ``None`` when there is no observation."""
    fatal: bool = False


class PendingTask(Contract):
    """A task that needs attempts, and which of them are there already."""

    index: int
    task_id: str
    category: str = ""
    finished_attempts: list[FinishedAttempt] = Field(default_factory=list)
    generation: int = 0
    """How often an operator had the finished task executed again."""


class PendingTasks(Contract):
    """A page; ``next_offset`` is ``None`` after the last one."""

    tasks: list[PendingTask]
    next_offset: int | None = None


class RequeueFailedInput(Contract):
    """Let finished tasks with a FATAL issue be executed again, one page of the task list at a time."""

    run_dir: str
    generation: int = Field(ge=1)
    """The same number in every try of this activity, so that a repetition finds what the first one did."""
    offset: int = 0
    before: int | None = None
    """Where the part of the task list begins that was not handed out yet; ``None``: there is none."""
    limit: int = 500


class RequeuedTasks(Contract):
    """Tasks whose records were moved to ``retry_details/``; ``next_offset`` is ``None`` at the end."""

    tasks: list[PendingTask]
    next_offset: int | None = None


class AttemptPlan(Contract):
    """What the attempt workflow must know of the plan to drive the phases."""

    environment: str
    evaluation_environment: str | None = None
    mode: EvaluationMode
    retry: RetryPlan
    keep_environment: bool = False
    harness_free: bool = False
    collects_artifacts: bool = False
    run_timeout_seconds: float | None = None
    evaluation_timeout_seconds: float | None = None
    collect_timeout_seconds: float = 660.0
    finished: bool = False
    """True when the attempt's result is on disk already: its worker died before it could say so."""
    resume_evaluation: bool = False
    """True when an unscored result of an earlier run was taken over: only its evaluation is left."""
    quick_phases: list[str] = Field(default_factory=list)
    """Phases that are executed as local activities."""
    pooled: list[str] = Field(default_factory=list)
    """Environment ids whose provider has a pool: a lease comes before each opening."""
    host_bound: bool = False
    cleanup_grace_seconds: float = 30.0
    steps: list[AttemptPlan] = Field(default_factory=list)
    """Of a task that is given step by step: each runs, is collected and judged by a plan of its own."""

    @property
    def quick_execution(self) -> bool:
        """True when one local activity can execute everything, from opening to closing."""
        run = Phase.RUN_TASK if self.harness_free else Phase.RUN_HARNESS
        needed = {Phase.OPEN_ENVIRONMENT, Phase.PREPARE_TASK, run, Phase.EVALUATE, Phase.CLOSE_ENVIRONMENT}
        whole = self.mode is not EvaluationMode.FRESH
        return (
            whole
            and not (self.keep_environment or self.collects_artifacts or self.steps)
            and needed <= set(self.quick_phases)
        )


TRIED_TOO_OFTEN = "tried_too_often"
"""The type of the failure of a quick step that was begun several times without an end. Its worker may have died in it, for
which the server gives up no workflow task: it is to be an activity of its own, with as many tries as that has."""


class QuickExecution(Contract):
    """What an execution left whose phases all ran in one local activity."""

    issues: list[Issue] = Field(default_factory=list)
    has_result: bool = False


class BeginAttemptInput(Contract):
    """Plan an attempt; one that is quick as a whole is executed and saved in the same step."""

    ref: AttemptRef
    attempts: AttemptsSpec


class OpenEnvironmentInput(Contract):
    """Open the task's environment, or the fresh one of the verifier."""

    ref: ExecutionRef
    for_evaluation: bool = False
    pooled: bool = False
    """True when the provider has a pool: a lease comes first."""
    quick: bool = False
    """True when the provider declared its opening quick."""


class OpenedEnvironment(Contract):
    """The living environment, and the queue of workers that can reach it (``None``: any)."""

    handle: EnvironmentHandle
    task_queue: str | None = None


class PhaseInput(Contract):
    """A phase of an execution, in an environment or without one."""

    ref: ExecutionRef
    handle: EnvironmentHandle | None = None
    quick: bool = False
    """True when its hooks are declared quick: one that does not end soon has failed, whatever its budget."""


class PhaseOutcome(Contract):
    """Issues that the phase put into the result without failing; their messages cut to a line."""

    issues: list[Issue] = Field(default_factory=list)
    status: str = "completed"
    ends_steps: bool = False
    """True after the evaluation of a step that no other one follows."""


class CloseEnvironmentInput(Contract):
    """Remove an environment."""

    ref: ExecutionRef
    handle: EnvironmentHandle
    pool: str = ""
    """The provider whose pool gave it a place, which is free when the environment is gone."""


class SaveRetryInput(Contract):
    """Keep what an execution left before it is discarded."""

    ref: ExecutionRef
    retry: int
    delay_seconds: float
    stage: str
    scope: str
    matched_pattern: str
    issues: list[Issue]
    loss: int = Field(default=0, ge=0)
    """Counts what was lost with its host, which is no retry; 0 for a retry."""


class SaveAttemptInput(Contract):
    """Make the last execution the attempt's result; compose the task when it was the last attempt."""

    ref: ExecutionRef
    attempts: AttemptsSpec
    retry_count: int = 0
    issues: list[Issue] = Field(default_factory=list)
    """Issues that the workflow knows and the stored result lacks."""
    cancelled: bool = False
    latest: bool = False
    """True when whoever asks does not know which execution was the last: the last one that left anything."""


class AttemptOutcome(Contract):
    """The result of an attempt workflow."""

    task_id: str
    attempt: int
    status: str
    success: bool | None = None
    fatal: bool = False
    error: bool = False
    warning: bool = False
    task_finished: bool = False
    message: str = ""
    """First issue, for people."""


class AttemptBegun(Contract):
    """How far an attempt came in its first step."""

    plan: AttemptPlan
    execution: QuickExecution | None = None
    """The first execution, when it was quick and came to its end."""
    outcome: AttemptOutcome | None = None
    """What was saved of it, when there was nothing left to decide: no retry, no refused account."""


class AnalyzeTasksInput(Contract):
    """A batch of finished tasks, by their place in the task list."""

    run_dir: str
    task_indexes: list[int]


class AnalyzedTasks(Contract):
    """How many attempts got an analysis, and how many analyzers failed on one."""

    attempts: int = 0
    failures: int = 0


class FinalizeInput(Contract):
    """Aggregate, write metrics and summary, and close the run directory."""

    run_dir: str
    request_key: str
    status: RunStatus
    error: str = ""


class AwaitAttemptsInput(Contract):
    """Attempt workflows that an earlier run of the request workflow started."""

    workflow_ids: list[str]


class AwaitedAttempt(Contract):
    """One of them that ended: with an outcome, or with the reason why it has none."""

    workflow_id: str
    outcome: AttemptOutcome | None = None
    failure: str = ""
    cancelled: bool = False


class AwaitedAttempts(Contract):
    """Those that ended first."""

    ended: list[AwaitedAttempt]


PREFLIGHT = ActivityStub("preflight", PreflightInput, PreflightReport)
PREPARE_REQUEST = ActivityStub("prepare_request", PrepareRequestInput, PreparedRequest)
DISCARD_REQUEST = ActivityStub("discard_request", PrepareRequestInput, Done)
PENDING_TASKS = ActivityStub("pending_tasks", PendingTasksInput, PendingTasks)
REQUEUE_FAILED = ActivityStub("requeue_failed", RequeueFailedInput, RequeuedTasks)
BEGIN_ATTEMPT = ActivityStub("begin_attempt", BeginAttemptInput, AttemptBegun)
PLAN_ATTEMPT = ActivityStub("plan_attempt", AttemptRef, AttemptPlan)
QUICK_EXECUTION = ActivityStub("quick_execution", ExecutionRef, QuickExecution)
OPEN_ENVIRONMENT = ActivityStub("open_environment", OpenEnvironmentInput, OpenedEnvironment)
PREPARE_TASK = ActivityStub("prepare_task", PhaseInput, PhaseOutcome)
RUN_HARNESS = ActivityStub("run_harness", PhaseInput, PhaseOutcome)
RUN_TASK = ActivityStub("run_task", PhaseInput, PhaseOutcome)
COLLECT_ARTIFACTS = ActivityStub("collect_artifacts", PhaseInput, PhaseOutcome)
EVALUATE = ActivityStub("evaluate", PhaseInput, PhaseOutcome)
HOLD_ENVIRONMENT = ActivityStub("hold_environment", PhaseInput, Done)
CLOSE_ENVIRONMENT = ActivityStub("close_environment", CloseEnvironmentInput, PhaseOutcome)
END_PHASE = ActivityStub("end_phase", EndPhaseInput, Done)
SAVE_RETRY = ActivityStub("save_retry", SaveRetryInput, Done)
SAVE_ATTEMPT = ActivityStub("save_attempt", SaveAttemptInput, AttemptOutcome)
ANALYZE_TASKS = ActivityStub("analyze_tasks", AnalyzeTasksInput, AnalyzedTasks)
AWAIT_ATTEMPTS = ActivityStub("await_attempts", AwaitAttemptsInput, AwaitedAttempts)
AWAIT_REQUESTS = ActivityStub("await_requests", AwaitRequestsInput, AwaitedRequests)
FINALIZE_REQUEST = ActivityStub("finalize_request", FinalizeInput, RequestResult)
SAVE_LAUNCH_SUMMARY = ActivityStub("save_launch_summary", LaunchSummaryInput, SavedLaunchSummary)
BE_PRESENT = ActivityStub("be_present", PresenceInput, Done)
REAP_ENVIRONMENTS = ActivityStub("reap_environments", ReapInput, SweepReport)

ALL_ACTIVITIES: tuple[ActivityStub[Any, Any], ...] = (
    PREFLIGHT,
    PREPARE_REQUEST,
    DISCARD_REQUEST,
    PENDING_TASKS,
    REQUEUE_FAILED,
    BEGIN_ATTEMPT,
    PLAN_ATTEMPT,
    QUICK_EXECUTION,
    OPEN_ENVIRONMENT,
    PREPARE_TASK,
    RUN_HARNESS,
    RUN_TASK,
    COLLECT_ARTIFACTS,
    EVALUATE,
    HOLD_ENVIRONMENT,
    CLOSE_ENVIRONMENT,
    END_PHASE,
    SAVE_RETRY,
    SAVE_ATTEMPT,
    ANALYZE_TASKS,
    AWAIT_ATTEMPTS,
    AWAIT_REQUESTS,
    FINALIZE_REQUEST,
    SAVE_LAUNCH_SUMMARY,
    BE_PRESENT,
    REAP_ENVIRONMENTS,
)
