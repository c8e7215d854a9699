"""What a launch of many requests carries from one run of its workflow to the next, and what its activities are told."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from .base import Contract
from .dispatch import Share
from .endpoints import EndpointState, RequestEndpoints
from .launch import LaunchResult, LaunchSpec, RequestResult

StopStatus = Literal["cancelled", "timed_out"]
"""How a launch or a request ends that was asked to."""


class MemberState(Contract):
    """One request, as the launch knew it at the end of a run."""

    share: Share
    endpoints: RequestEndpoints = Field(default_factory=RequestEndpoints)
    begun: bool = False
    """True when its workflow was started."""
    result: RequestResult | None = None
    stop_status: StopStatus | None = None
    """With which status it was asked to end, alone or with the launch."""
    stop_reason: str = ""


class LaunchState(Contract):
    """What a launch workflow carries over ``continue_as_new``."""

    started_at: str
    """After preflight, ISO 8601, UTC."""
    deadline: float | None = None
    """Unix seconds; ``None`` without a time limit."""
    stop_status: StopStatus | None = None
    stop_reason: str = ""
    paused: str = ""
    """Why no further attempt is started; empty while there is no such reason."""
    task_concurrency: int
    provider_limits: dict[str, int] = Field(default_factory=dict)
    endpoints: list[EndpointState] = Field(default_factory=list)
    """Those that refused an account some time, and whether they still do."""
    members: list[MemberState]
    """In the order of the launch."""


class AwaitRequestsInput(Contract):
    """Request workflows that an earlier run of the launch workflow started."""

    workflow_ids: list[str]


class AwaitedRequest(Contract):
    """One of them that ended: with a result, or with the reason why it has none."""

    workflow_id: str
    result: RequestResult | None = None
    failure: str = ""
    exit_code: int = 1
    """What a request that was refused carries."""


class AwaitedRequests(Contract):
    """Those that ended first."""

    ended: list[AwaitedRequest]


class LaunchSummaryInput(Contract):
    """Write ``launch_summary.json`` and its table. Times are ISO 8601, UTC."""

    results_dir: str
    name: str
    result: LaunchResult
    started_at: str
    finished_at: str


class SavedLaunchSummary(Contract):
    """The folder in which it lies."""

    path: str


class PreflightInput(Contract):
    """All requests of a launch, before anything is written."""

    spec: LaunchSpec


class PreflightReport(Contract):
    """Problems that make the launch impossible; empty when it can start."""

    problems: list[str] = Field(default_factory=list)
    unreachable: list[str] = Field(default_factory=list)
    """Services that do not answer: exit code 3 instead of 2."""
    warnings: list[str] = Field(default_factory=list)
    endpoints: list[RequestEndpoints] = Field(default_factory=list)
    """Of each request that is made of known components, in their order."""
