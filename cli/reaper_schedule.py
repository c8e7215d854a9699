"""The schedule by which a cluster removes environments that were left behind."""

from __future__ import annotations

import os
from datetime import timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
)

from ..contracts.upkeep import ReapInput
from ..contracts.workflows import CLUSTER_QUEUE, QUEUE_VARIABLE, REAPER_SCHEDULE, REAPER_WORKFLOW

EVERY = timedelta(minutes=10)
_LIMIT = timedelta(hours=1)


async def create_reaper_schedule(client: Client) -> bool:
    """Create it; False when it is there. One that an operator paused or changed stays as it is.

    Raises ``RPCError`` when the server does not let us.
    """
    schedule = Schedule(
        action=ScheduleActionStartWorkflow(
            REAPER_WORKFLOW,
            ReapInput(),
            id=REAPER_SCHEDULE,
            task_queue=os.environ.get(QUEUE_VARIABLE) or CLUSTER_QUEUE,
            execution_timeout=_LIMIT,
            static_summary="environments whose attempt is over",
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=EVERY)]),
        # Without a worker one of them waits, not a queue of them.
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(minutes=1)),
    )
    try:
        await client.create_schedule(REAPER_SCHEDULE, schedule)
    except ScheduleAlreadyRunningError:
        return False
    return True
