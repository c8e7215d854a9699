"""Launches for scheduled times that have passed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta, tzinfo

from google.protobuf.timestamp_pb2 import Timestamp
from temporalio.api.workflowservice.v1 import ListScheduleMatchingTimesRequest
from temporalio.client import ScheduleBackfill, ScheduleOverlapPolicy, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from ...contracts.errors import ConfigurationError, UsageError
from ...contracts.schedules import OverlapPolicy, schedule_id, schedule_workflow_id
from ..connection import Connection
from ..launch_handle import call
from ..launcher import open_connection
from .definition import input_of, overlap_of
from .facts import workflow_of
from .service import describe, handle_of
from .timezones import find_timezone

MAX_TIMES = 100
"""Launches that one command may ask for: each may take hours and money."""
_COUNTED = 1000
"""Times that a server tells of a range at most."""
_DONE = {WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.RUNNING}


@dataclass(frozen=True)
class BackfillPlan:
    """What a backfill starts, and what it leaves out."""

    times: list[datetime] = field(default_factory=list)
    done: list[datetime] = field(default_factory=list)
    """Times whose launch has completed, or is under way."""
    zone: tzinfo = UTC
    """The schedule's, for showing them."""


async def backfill(
    name: str, start: str, end: str, *, again: bool = False, dry_run: bool = False
) -> BackfillPlan:
    """Start the launches of the scheduled times from ``start`` to ``end``, both included, one after the other.

    Times are ISO 8601, in the schedule's zone unless they say another one; an empty ``end`` is now. Without
    ``again`` a time whose launch completed is left out. ``dry_run`` starts nothing.

    Raises ``UsageError`` for an unknown schedule, a range that holds no time in the past, or too many.
    """
    connection = await open_connection()
    description = await describe(connection, name)
    zone = find_timezone((await input_of(connection.client, description)).timezone)
    now = datetime.now(UTC)
    first = parse_time(start, zone, "--from")
    last = min(now, parse_time(end, zone, "--to", end_of_day=True) if end else now)
    if first > last:
        raise UsageError("there is nothing to backfill: --from lies in the future, or after --to")
    times = await _matching_times(connection, name, first, last)
    if len(times) > MAX_TIMES:
        raise UsageError(
            f"{len(times)}{' or more' if len(times) >= _COUNTED - 1 else ''} scheduled times lie in this range; "
            f"at most {MAX_TIMES} at once: choose a smaller one"
        )
    done = [] if again else await _done(connection, name, times)
    plan = BackfillPlan([item for item in times if item not in done], done, zone)
    if plan.times and not dry_run:
        side_by_side = overlap_of(description) is OverlapPolicy.ALLOW_ALL
        # Any other policy would skip or cancel all but one of them.
        overlap = ScheduleOverlapPolicy.ALLOW_ALL if side_by_side else ScheduleOverlapPolicy.BUFFER_ALL
        ranges = [
            # Servers differ in whether the start belongs to the range; a schedule has whole minutes.
            ScheduleBackfill(start_at=item - timedelta(seconds=1), end_at=item, overlap=overlap)
            for item in plan.times
        ]
        await handle_of(connection, name).backfill(*ranges)
    return plan


def parse_time(text: str, zone: tzinfo, flag: str, *, end_of_day: bool = False) -> datetime:
    """A date or a time in ISO 8601, in UTC. Raises ``ConfigurationError`` that names the flag."""
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigurationError(
            f"{flag} {text!r} is not a time in ISO 8601, such as 2026-11-30 or 2026-11-30T02:00"
        ) from None
    if end_of_day and len(text.strip()) <= len("2026-11-30"):
        found = datetime.combine(found.date(), time.max)
    try:
        return (found if found.tzinfo else found.replace(tzinfo=zone)).astimezone(UTC)
    except OverflowError:
        raise ConfigurationError(f"{flag} {text!r} is out of range") from None


async def _matching_times(
    connection: Connection, name: str, first: datetime, last: datetime
) -> list[datetime]:
    """The scheduled times of a range, both ends included."""
    start, end = Timestamp(), Timestamp()
    start.FromDatetime(first - timedelta(seconds=1))
    end.FromDatetime(last)
    request = ListScheduleMatchingTimesRequest(
        namespace=connection.namespace, schedule_id=schedule_id(name), start_time=start, end_time=end
    )
    try:
        answer = await call(lambda: connection.client.workflow_service.list_schedule_matching_times(request))
    except RPCError as error:
        if error.status is RPCStatusCode.INVALID_ARGUMENT:  # the server counts to a thousand only
            raise UsageError(f"the range cannot be backfilled: {error.message}") from None
        raise
    found = [item.ToDatetime(tzinfo=UTC) for item in answer.start_time]
    return [item for item in found if first <= item <= last]


async def _done(connection: Connection, name: str, times: list[datetime]) -> list[datetime]:
    """Those whose latest launch has completed, or runs."""

    async def is_done(at: datetime) -> bool:
        handle = workflow_of(connection.client, schedule_workflow_id(name, at))
        try:
            return (await call(handle.describe)).status in _DONE
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise

    answers = await asyncio.gather(*map(is_done, times))
    return [at for at, answer in zip(times, answers, strict=True) if answer]
