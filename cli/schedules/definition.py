"""A schedule as Temporal keeps it, made from what a user asked for and read back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleDescription,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
)
from temporalio.exceptions import TemporalError

from ...contracts.errors import AgentCompassError
from ...contracts.schedules import (
    SCHEDULED_LAUNCH_WORKFLOW,
    OverlapPolicy,
    ScheduledLaunchInput,
    schedule_id,
)
from ...workflows.attributes import launch_memo, launch_summary
from .cron import parse_cron

DEFAULT_CATCHUP_SECONDS = 3600.0
"""Temporal's own default of a year would evaluate every night of an outage, one after the other."""
MIN_CATCHUP_SECONDS = 10.0
"""What the server takes a smaller one for."""

OVERLAPS: dict[OverlapPolicy, ScheduleOverlapPolicy] = {
    OverlapPolicy.SKIP: ScheduleOverlapPolicy.SKIP,
    OverlapPolicy.BUFFER_ONE: ScheduleOverlapPolicy.BUFFER_ONE,
    OverlapPolicy.CANCEL_OTHER: ScheduleOverlapPolicy.CANCEL_OTHER,
    OverlapPolicy.ALLOW_ALL: ScheduleOverlapPolicy.ALLOW_ALL,
}


@dataclass(frozen=True)
class ScheduleOptions:
    """How a schedule treats its times."""

    overlap: OverlapPolicy = OverlapPolicy.SKIP
    catchup_window_seconds: float = DEFAULT_CATCHUP_SECONDS
    paused: bool = False


def make_schedule(input: ScheduledLaunchInput, options: ScheduleOptions, task_queue: str) -> Schedule:
    """What is sent to the server; the expression and the zone have been checked."""
    return Schedule(
        action=ScheduleActionStartWorkflow(
            SCHEDULED_LAUNCH_WORKFLOW,
            input,
            id=schedule_id(input.schedule),
            task_queue=task_queue,
            memo={**launch_memo(input.spec), "schedule": input.schedule},
            static_summary=f"{input.schedule} · {launch_summary(input.spec)}",
        ),
        spec=ScheduleSpec(cron_expressions=[parse_cron(input.cron).text], time_zone_name=input.timezone),
        policy=SchedulePolicy(
            overlap=OVERLAPS[options.overlap],
            catchup_window=timedelta(seconds=options.catchup_window_seconds),
        ),
        state=ScheduleState(paused=options.paused),
    )


async def input_of(client: Client, description: ScheduleDescription) -> ScheduledLaunchInput:
    """What the schedule starts its launches from.

    Raises ``AgentCompassError`` when it is not one of ours, or of another version.
    """
    action = description.schedule.action
    if isinstance(action, ScheduleActionStartWorkflow) and action.workflow == SCHEDULED_LAUNCH_WORKFLOW:
        payloads = [item for item in action.args if isinstance(item, Payload)]
        try:
            [found] = await client.data_converter.decode(payloads, [ScheduledLaunchInput])
        except (ValueError, TemporalError, RuntimeError) as error:
            raise AgentCompassError(
                f"the plan of schedule {description.id!r} is not one of this version ({type(error).__name__}); "
                "create it again with --replace"
            ) from error
        if isinstance(found, ScheduledLaunchInput):
            return found
    raise AgentCompassError(f"{description.id!r} is not a schedule of AgentCompass")


def overlap_of(description: ScheduleDescription) -> OverlapPolicy | None:
    """``None`` for a policy that somebody set with another tool."""
    wanted = description.schedule.policy.overlap
    return next((ours for ours, theirs in OVERLAPS.items() if theirs is wanted), None)


def task_queue_of(description: ScheduleDescription) -> str:
    """The queue whose workers carry its launches out."""
    action = description.schedule.action
    return action.task_queue if isinstance(action, ScheduleActionStartWorkflow) else ""
