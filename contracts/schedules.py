"""Launches that start by the clock: what a schedule starts, and what its launches are called."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import StrEnum

from pydantic import Field, field_validator

from .base import Contract
from .launch import LaunchSpec
from .request import ScheduledRun
from .workflows import encode_id

SCHEDULED_LAUNCH_WORKFLOW = "ScheduledLaunchWorkflow"
SCHEDULE_PREFIX = "schedule/"
MAX_REPETITIONS = 100
"""Launches of one scheduled time that can be told apart; the backfill of a time makes another one."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class OverlapPolicy(StrEnum):
    """What happens at a scheduled time while the launch of an earlier one goes on."""

    SKIP = "skip"
    """No launch."""
    BUFFER_ONE = "buffer-one"
    """One launch waits and starts afterwards; further times are skipped."""
    CANCEL_OTHER = "cancel-other"
    """The earlier launch is cancelled and cleaned up, then the new one starts."""
    ALLOW_ALL = "allow-all"
    """Both run side by side."""


class ScheduledLaunchInput(Contract):
    """What each scheduled launch starts from: the plan as it was resolved when the schedule was created."""

    schedule: str
    cron: str
    """As it was given: Temporal keeps it in a form of its own."""
    timezone: str = "UTC"
    spec: LaunchSpec
    fail_on_regression: bool = False
    """Whether a launch fails whose headline metric is worse than that of the run before it."""
    ui_address: str | None = None

    @field_validator("schedule")
    @classmethod
    def _usable_name(cls, value: str) -> str:
        if not is_schedule_name(value):
            raise ValueError(f"{value!r} is not a schedule's name: letters, digits, '.', '_' and '-'")
        return value


class ScheduledLaunchResult(Contract):
    """How a scheduled launch ended well. One that did not fails its workflow, so that it is seen."""

    launch_id: str
    status: str
    comparisons: dict[str, str] = Field(default_factory=dict)
    """By request: one line on how it compares with the run before it."""


def is_schedule_name(name: str) -> bool:
    """Names become folders and ids: at most 64 letters, digits, ``.``, ``_`` and ``-``."""
    return _NAME.fullmatch(name) is not None


def schedule_id(name: str) -> str:
    """The id of the Temporal schedule, and what the ids of the workflows begin with that it starts."""
    return f"{SCHEDULE_PREFIX}{encode_id(name)}"


def schedule_workflow_id(name: str, scheduled_at: datetime) -> str:
    """The id that Temporal gives the workflow of a scheduled time."""
    return f"{schedule_id(name)}-{scheduled_at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def scheduled_launch_id(name: str, scheduled_at: datetime, repetition: int = 1) -> str:
    """``nightly-20261130-020000``: the scheduled time in UTC; a repetition of the same time is numbered."""
    return f"{name}-{scheduled_at.astimezone(UTC):%Y%m%d-%H%M%S}{_numbered(repetition)}"


def scheduled_run_id(scheduled_at: datetime, repetition: int = 1) -> str:
    """``20261130_020000``: the run id of a scheduled time, in UTC, since a clock in local time goes back once a year."""
    return f"{scheduled_at.astimezone(UTC):%Y%m%d_%H%M%S}{_numbered(repetition)}"


def scheduled_spec(input: ScheduledLaunchInput, scheduled_at: datetime, repetition: int = 1) -> LaunchSpec:
    """The launch of one scheduled time: run ids, and below the results directory a folder of the schedule's own.

    The folder keeps two schedules of one plan apart, and is where the previous run is looked for.
    """
    run = ScheduledRun(
        schedule=input.schedule,
        scheduled_at=scheduled_at.astimezone(UTC).isoformat(timespec="seconds"),
        fail_on_regression=input.fail_on_regression,
    )
    requests = []
    for request in input.spec.requests:
        folder = "/".join(filter(None, (input.schedule, request.output.run_name)))
        output = request.output.model_copy(
            update={"run_name": folder, "run_id": scheduled_run_id(scheduled_at, repetition)}
        )
        metadata = request.metadata.model_copy(update={"scheduled": run})
        requests.append(request.model_copy(update={"output": output, "metadata": metadata}))
    name = input.spec.name or input.schedule
    return input.spec.model_copy(update={"name": name, "requests": requests})


def _numbered(repetition: int) -> str:
    return "" if repetition == 1 else f"-{repetition}"
