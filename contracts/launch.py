"""A launch: an ordered set of requests with shared limits, and what comes of it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from .base import MAX_SECONDS, Contract
from .request import LogLevel, ProgressMode, RunRequest

MAX_CONCURRENCY = 100_000


class LaunchRuntime(Contract):
    """What all requests of a launch share. Times are in seconds; 0 switches a limit off."""

    results_dir: str = "results"
    timeout_seconds: float = Field(default=360_000, ge=0, le=MAX_SECONDS)
    cleanup_grace_seconds: float = Field(default=30, ge=0, le=MAX_SECONDS)
    heartbeat_timeout_seconds: float = Field(default=30, ge=2, le=MAX_SECONDS)
    """How long a silent worker keeps an activity before another worker gets it."""
    host_lost_after_seconds: float = Field(default=600, ge=0, le=MAX_SECONDS)
    """How long an attempt waits for the only host that has its environment, before it is executed again elsewhere."""
    progress: ProgressMode = "auto"
    log_level: LogLevel = "INFO"
    file_log_level: LogLevel = "DEBUG"
    provider_limits: dict[str, int] = Field(default_factory=dict)
    env_open_qps: dict[str, float] = Field(default_factory=dict)
    recipe_dirs: list[str] = Field(default_factory=list)

    @field_validator("provider_limits", "env_open_qps")
    @classmethod
    def _not_negative(cls, value: dict[str, float]) -> dict[str, float]:
        for name, limit in value.items():
            if limit < 0:
                raise ValueError(f"the limit of {name!r} is negative; 0 means no limit")
        return value


class LaunchSpec(Contract):
    """The resolved launch: defaults merged, references kept, paths absolute."""

    version: Literal[1] = 1
    name: str = ""
    task_concurrency: int = Field(default=32, ge=1, le=MAX_CONCURRENCY)
    runtime: LaunchRuntime = Field(default_factory=LaunchRuntime)
    requests: list[RunRequest] = Field(min_length=1)

    @property
    def is_plan(self) -> bool:
        """True for a launch file, whose requests have names; false for a single ``run``."""
        return any(request.metadata.request_name for request in self.requests)

    @model_validator(mode="after")
    def _unique_names(self) -> LaunchSpec:
        seen: set[str] = set()
        for request in self.requests:
            name = request.metadata.request_name
            if name and name in seen:
                raise ValueError(f"two requests are called {name!r}")
            seen.add(name)
        return self


LaunchStatusName = Literal[
    "preflight",
    "running",
    "paused",
    "stopping",
    "completed",
    "partial_failure",
    "failed",
    "timed_out",
    "cancelled",
]


OVER_STATES = frozenset({"completed", "partial_failure", "failed", "timed_out", "cancelled"})
"""States of launches and requests in which nothing happens any more."""


class RunningTask(Contract):
    """A task in flight, and how long ago something happened in it; ages in seconds."""

    task_id: str
    attempt: int | None = None
    phase: str
    phase_seconds: float
    last_step_seconds: float | None = None
    """Age of its agent's last recorded step; ``None`` when there is none yet."""


class RequestStatus(Contract):
    """The state of one request, small enough for a query."""

    key: str
    workflow_id: str
    run_dir: str = ""
    run_id: str = ""
    state: str = "pending"
    benchmark: str = ""
    harness: str = ""
    model: str = ""
    environment: str = ""
    total_tasks: int = 0
    reused_tasks: int = 0
    finished_tasks: int = 0
    completed_tasks: int = 0
    failed_tasks: int = 0
    error_tasks: int = 0
    warning_tasks: int = 0
    running_attempts: int = 0
    waiting_attempts: int = 0
    """Attempts that have begun and hold no slot: before a retry, or because an endpoint refused the account."""
    message: str = ""
    """Why it is paused, stopped or failed."""
    running_tasks: list[RunningTask] = Field(default_factory=list)
    """Read from the run directory where it can be reached, the longest without news first."""


class LaunchStatus(Contract):
    """The state of a launch, as ``agentcompass status`` shows it."""

    launch_id: str
    name: str = ""
    state: LaunchStatusName
    task_concurrency: int = 0
    """Attempts at a time over all requests; it can be changed while the launch runs."""
    provider_limits: dict[str, int] = Field(default_factory=dict)
    requests: list[RequestStatus] = Field(default_factory=list)
    message: str = ""
    troubles: list[str] = Field(default_factory=list)
    """What fails and is tried again without end, such as writing to a full disk; one line each."""


class RequestOutcome(Contract):
    """What became of a request; its numbers are in its run directory."""

    run_id: str = ""
    run_dir: str = ""
    status: str
    benchmark: str = ""
    harness: str = ""
    model: str = ""
    environment: str = ""
    total_tasks: int = 0
    evaluated_tasks: int = 0
    unavailable_tasks: int = 0
    invalidated_tasks: int = 0
    error_tasks: int = 0
    warning_tasks: int = 0
    """Tasks whose worst issue is a warning."""
    reused_tasks: int = 0
    """Tasks of which another run had the result."""
    primary: str = ""
    value: float | None = None
    """The official value of the primary metric; ``None`` when the evaluation failed."""
    reference_value: float | None = None
    error: str = ""
    damaged_records: int = 0
    """Task records that are there and cannot be read. They count as unavailable, and no command that reads
    them ends with 0; ``metrics.json`` names them."""
    exit_code: int = 0
    """What the command line returns for this request: see the table in ``docs/cli.md``."""
    comparison: str = ""
    """One line on how it compares with the run before it of the same schedule."""
    regression: str = ""
    """Why the launch fails although this run may be valid: it is worse than the run before it, or cannot be
    compared, and its schedule demands that it is not."""


class RequestResult(RequestOutcome):
    """How a request ended."""

    key: str

    @property
    def valid(self) -> bool:
        """True when the run completed and its official values stand."""
        return self.status == "completed"

    def as_status(self, workflow_id: str = "") -> RequestStatus:
        """The state of a request that is over."""
        # Those without a score may have been executed; of a completed run, all were.
        unfinished = 0 if self.valid else self.unavailable_tasks
        return RequestStatus(
            key=self.key,
            workflow_id=workflow_id,
            run_dir=self.run_dir,
            run_id=self.run_id,
            state=self.status,
            benchmark=self.benchmark,
            harness=self.harness,
            model=self.model,
            environment=self.environment,
            total_tasks=self.total_tasks,
            finished_tasks=max(0, self.total_tasks - unfinished - self.reused_tasks),
            completed_tasks=self.evaluated_tasks,
            reused_tasks=self.reused_tasks,
            failed_tasks=self.invalidated_tasks,
            # A result counts tasks with a FATAL issue as errors, too; a status counts each task by its worst.
            error_tasks=max(0, self.error_tasks - self.invalidated_tasks),
            warning_tasks=self.warning_tasks,
            message=self.error,
        )


class LaunchResult(Contract):
    """How a launch ended."""

    launch_id: str
    status: LaunchStatusName
    requests: list[RequestResult] = Field(default_factory=list)
    error: str = ""
    exit_code: int = 0
    summary_path: str = ""
    """Folder of ``launch_summary.json``, when there is one."""

    @property
    def refused(self) -> bool:
        """True when nothing was begun: the user has something to mend, or a service is away."""
        return self.exit_code in (2, 3) and not any(request.run_dir for request in self.requests)


class SummarizedRequest(RequestOutcome):
    """A request in ``launch_summary.json``; ``run_dir`` is relative to the results directory where it lies in it."""

    name: str
    """The request's ``key``: a field of that name would be masked as a secret."""


class LaunchSummary(Contract):
    """``launch_summary.json``: what became of all requests of a launch file. Times are ISO 8601, UTC."""

    schema_version: Literal["agentcompass.launch_summary.v1"] = "agentcompass.launch_summary.v1"
    launch_id: str
    name: str = ""
    status: LaunchStatusName
    started_at: str
    """After preflight, when the clock of ``timeout_seconds`` began."""
    finished_at: str
    requests: list[SummarizedRequest]
    """In the order of the file."""
    error: str = ""
    exit_code: int = 0
