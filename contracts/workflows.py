"""Names, ids and inputs of the workflows."""

from __future__ import annotations

from enum import StrEnum
from urllib.parse import quote

from pydantic import Field, field_validator

from .activities import AttemptOutcome, AttemptRef, PendingTask
from .base import Contract
from .dispatch import Allowance, Demand
from .endpoints import EndpointState, RequestEndpoints
from .launch import MAX_CONCURRENCY, LaunchRuntime, LaunchSpec
from .launch_state import LaunchState
from .pool import Grant, PoolSettings, PoolState
from .records import RunStatus, TemporalInfo
from .request import AttemptsSpec, RunRequest

LAUNCH_WORKFLOW = "LaunchWorkflow"
REQUEST_WORKFLOW = "RequestWorkflow"
ATTEMPT_WORKFLOW = "AttemptWorkflow"
REAPER_WORKFLOW = "ReaperWorkflow"
POOL_WORKFLOW = "ProviderPoolWorkflow"

POOL_QUEUE = "agentcompass-pools"
"""Where pools run, whichever launch or fleet they serve; workers serve it as soon as there is a pool."""

REAPER_SCHEDULE = "agentcompass-environments"
"""Id of the schedule that removes environments, and the start of the ids of its workflows."""
CLUSTER_QUEUE = "agentcompass"
"""The queue that workers of a cluster serve unless they are told another one."""
QUEUE_VARIABLE = "AGENTCOMPASS_TASK_QUEUE"

STATUS_QUERY = "status"
PAUSE_SIGNAL = "pause"
RESUME_SIGNAL = "resume"
CANCEL_SIGNAL = "cancel"
STOP_SIGNAL = "stop"
PARKED_SIGNAL = "attempt_parked"
READY_SIGNAL = "attempt_ready"
GO_SIGNAL = "go"
ACQUIRE_SIGNAL = "acquire"
ACQUIRE_UPDATE = "acquire_now"
"""The same, answered at once: with a grant, or with nothing for who has to wait."""
PLACES_QUERY = "places"
"""What became of those that wait."""
RELEASE_SIGNAL = "release"
GONE_SIGNAL = "gone"
"""Attempts that hold or want a place are over."""
POOL_LIMITS_SIGNAL = "set_limits"
ALLOWANCE_SIGNAL = "allowance"
DEMAND_SIGNAL = "demand"
ENDPOINT_SIGNAL = "endpoint"
"""What a request reports of an endpoint, and what its launch decides."""
LIMITS_SIGNAL = "set_limits"
CANCEL_REQUEST_SIGNAL = "cancel_request"
CANCEL_TASK_SIGNAL = "cancel_task"
RETRY_FAILED_SIGNAL = "retry_failed"
END_UPDATE = "end"

BEGAN_MEMO = "began"
"""When a launch began that has continued as new since; ISO 8601."""

NAMESPACE = "agentcompass"
"""The namespace of the embedded server."""


def encode_id(text: str) -> str:
    """Percent-encode what would make a workflow id ambiguous; ``/`` separates its levels."""
    return quote(text, safe="-_.~ =+,:@()[]")


def launch_workflow_id(launch_id: str) -> str:
    """``launch/<launch>``."""
    return f"launch/{encode_id(launch_id)}"


def request_workflow_id(launch_id: str, request_key: str) -> str:
    """``launch/<launch>/<request>``."""
    return f"{launch_workflow_id(launch_id)}/{encode_id(request_key)}"


def attempt_workflow_id(request_id: str, task_id: str, attempt: int, generation: int = 0) -> str:
    """``<request workflow id>/<task>/a<attempt>``, and ``/again<n>`` when the task is executed again."""
    again = f"/again{generation}" if generation else ""
    return f"{request_id}/{encode_id(task_id)}/a{attempt}{again}"


def pool_workflow_id(provider: str) -> str:
    """``pool/<environment id>``: one for each provider that has limits over all launches."""
    return f"pool/{encode_id(provider)}"


def presence_queue(host_queue: str) -> str:
    """Where a host is asked whether it is there."""
    return f"{host_queue}/presence"


def places_queue(task_queue: str) -> str:
    """Where environments are opened that have to wait for a place; those that wait take no room from those that work."""
    return f"{task_queue}/places"


def request_key(index: int, request: RunRequest) -> str:
    """The key of a request in its launch: its name, else its position and what it evaluates."""
    return request.metadata.request_name or f"{index + 1}-{request.benchmark.id}-{request.harness.id}"


class RequestOverrides(Contract):
    """Knobs of the request workflow that tests turn; ``None`` keeps the default."""

    continue_as_new_after: int | None = None


class LaunchInput(Contract):
    """Input of the launch workflow; ``state`` is set when it continues as new."""

    launch_id: str
    spec: LaunchSpec
    ui_address: str | None = None
    overrides: RequestOverrides = Field(default_factory=RequestOverrides)
    continue_as_new_after: int | None = None
    """Events of its history after which it continues as new; ``None`` for what fits its number of requests."""
    state: LaunchState | None = None


class LimitsChange(Contract):
    """New limits of a running launch; what is not named stays."""

    task_concurrency: int | None = Field(default=None, ge=1, le=MAX_CONCURRENCY)
    provider_limits: dict[str, int] = Field(default_factory=dict)
    """Attempts at a time per environment id; 0 is no limit."""

    @field_validator("provider_limits")
    @classmethod
    def _not_negative(cls, value: dict[str, int]) -> dict[str, int]:
        for name, limit in value.items():
            if limit < 0:
                raise ValueError(f"the limit of {name!r} is negative; 0 means no limit")
        return value


class AttemptInput(Contract):
    """Input of an attempt workflow; everything else lies in the run directory."""

    ref: AttemptRef
    attempts: AttemptsSpec
    heartbeat_timeout_seconds: float = 30.0
    cleanup_grace_seconds: float = 30.0
    in_one_step: bool = False
    """Begin with one activity that may do all of it. False for attempts that older versions started."""
    host_lost_after_seconds: float = 600.0


class EndAttempt(Contract):
    """Ask an attempt to end the phase that runs, and to go on with what it left."""

    reason: str = Field(default="", max_length=500)


class EndedPhase(Contract):
    """What is being ended."""

    phase: str
    """For people; ``the execution`` where nobody outside knows the phase."""
    execution: int


class ParkReason(StrEnum):
    """Why an attempt waits without a slot."""

    BACKOFF = "backoff"
    """Before a retry; it says itself when it wants to go on."""
    BLOCKED = "blocked"
    """The model endpoint refuses the account; it goes on when the request is resumed."""


class ParkedAttempt(Contract):
    """An attempt that gave its slot back for a while."""

    workflow_id: str
    reason: ParkReason
    message: str = ""
    code: str = ""
    """Of the issue that blocks it."""


class RunningAttempt(Contract):
    """An attempt workflow in flight."""

    workflow_id: str
    task: PendingTask
    attempt: int


class RequestCounters(Contract):
    """What the request workflow has seen; ``progress.json`` holds the details."""

    finished_tasks: int = 0
    completed_tasks: int = 0
    failed_tasks: int = 0
    error_tasks: int = 0
    warning_tasks: int = 0

    def add(self, outcome: AttemptOutcome) -> None:
        """Count a task by the attempt that finished it."""
        self.finished_tasks += 1
        self.failed_tasks += outcome.fatal
        self.error_tasks += outcome.error and not outcome.fatal
        self.warning_tasks += outcome.warning and not (outcome.error or outcome.fatal)
        self.completed_tasks += not outcome.fatal

    def take_back(self, tasks: int) -> None:
        """Failed tasks are executed again."""
        self.finished_tasks -= tasks
        self.failed_tasks = max(0, self.failed_tasks - tasks)


class ReadyAttempt(Contract):
    """An attempt that may start as soon as there is a slot."""

    task: PendingTask
    attempt: int


class Requeue(Contract):
    """Failed tasks that an operator wants again, read a page at a time; see ``RequeueFailedInput``."""

    generation: int
    offset: int = 0
    before: int | None = None


class RequestState(Contract):
    """What a request workflow carries over ``continue_as_new``."""

    run_dir: str
    run_id: str
    total_tasks: int
    reused_tasks: int = 0
    parallel_attempts: bool = False
    next_offset: int | None = 0
    """Where the next page of the task list starts; ``None`` when all pages were read."""
    ready: list[ReadyAttempt] = Field(default_factory=list)
    running: list[RunningAttempt] = Field(default_factory=list)
    parked: list[ParkedAttempt] = Field(default_factory=list)
    """Those of ``running`` that hold no slot."""
    waiting: list[str] = Field(default_factory=list)
    """Those of ``running`` that want a slot again, in order."""
    analyzes: bool = False
    unanalyzed: list[int] = Field(default_factory=list)
    """Finished tasks, by their place in the task list, that no analyzer has looked at."""
    counters: RequestCounters = Field(default_factory=RequestCounters)
    generation: int = 0
    """How often operators asked for the failed tasks again."""
    requeues: int = 0
    """Of these, those that were not begun yet."""
    again: list[Requeue] = Field(default_factory=list)
    """Those that were begun and not read to the end."""
    task_concurrency: int = 32
    """Slots: attempts that may run at a time."""
    allowance: Allowance = Field(default_factory=Allowance)
    """What the launch said last, when it shares its slots among several requests."""
    reported: Demand | None = None
    """What the launch was told last."""
    promised_slots: int = 0
    """The most that it has given since then."""
    cancelled_tasks: list[str] = Field(default_factory=list)
    """Tasks of which no further attempt is started, and which are not finished yet."""
    paused: str = ""
    """Why an operator paused it; empty when none did."""
    endpoints: list[EndpointState] = Field(default_factory=list)
    """What it knows of the endpoints that it depends on."""
    stop_status: RunStatus | None = None
    """How it shall end; ``None`` while nobody asked it to stop."""
    stop_reason: str = ""


class RequestInput(Contract):
    """Input of a request workflow; ``state`` is set when it continues as new."""

    launch_id: str
    request_key: str
    request_index: int
    request_count: int
    request: RunRequest
    runtime: LaunchRuntime
    task_concurrency: int
    shares_slots: bool = False
    """True when the launch has several requests: this one starts without a slot and asks for some."""
    abandoned: bool = False
    """True when it is not ended with its launch, which has so many requests that it continues as new."""
    endpoints: RequestEndpoints = Field(default_factory=RequestEndpoints)
    """What it shares with other requests of the launch; nothing when there are none, or it was started by an older version."""
    endpoint_states: list[EndpointState] = Field(default_factory=list)
    """What the launch knew of them when it started this request."""
    temporal: TemporalInfo
    continue_as_new_after: int = 1500
    """Attempts started by one run of the workflow before it continues as new."""
    state: RequestState | None = None


class PoolInput(Contract):
    """Input of a provider's pool."""

    provider: str
    state: PoolState = Field(default_factory=PoolState)
    continue_as_new_after: int = 1000
    """Events of its history after which it continues as new: a lease takes longer the longer it is."""


class PoolAnswer(Contract):
    """What a pool says to an attempt that asks."""

    grant: Grant | None = None
    """``None``: it waits, and asks by ``PLACES_QUERY``."""


class PoolStatus(Contract):
    """What a pool tells of itself."""

    provider: str
    settings: PoolSettings
    held: dict[str, int] = Field(default_factory=dict)
    """Places by launch."""
    waiting: dict[str, int] = Field(default_factory=dict)
    """Attempts that wait, by launch."""
