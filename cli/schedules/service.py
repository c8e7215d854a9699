"""Creating, finding, steering and ending schedules: what the commands do."""

from __future__ import annotations

import asyncio
import os
import shlex
from dataclasses import replace

from temporalio.client import (
    ScheduleAlreadyRunningError,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.service import RPCError, RPCStatusCode

from ...contracts.errors import AgentCompassError, ConfigurationError, UsageError
from ...contracts.schedules import (
    SCHEDULE_PREFIX,
    ScheduledLaunchInput,
    is_schedule_name,
    schedule_id,
)
from ...contracts.workflows import CLUSTER_QUEUE, QUEUE_VARIABLE
from ..cluster_setup import check_set_up
from ..config.problems import nearest
from ..connection import Connection
from ..launch_handle import call
from ..launcher import open_connection
from .definition import ScheduleOptions, make_schedule
from .facts import WAITING, ScheduleFacts, StartedAction, read_facts

TRIGGER_SECONDS = 15.0
"""How long ``trigger`` waits for the server to start what it asked for."""


def schedule_queue() -> str:
    """The queue of scheduled launches. They have no terminal, so a worker has to be there by itself."""
    return os.environ.get(QUEUE_VARIABLE) or CLUSTER_QUEUE


async def create(
    input: ScheduledLaunchInput, options: ScheduleOptions, *, replace_it: bool = False
) -> ScheduleFacts:
    """Create a schedule, or give an existing one another plan; what it has started stays its past.

    Raises ``UsageError`` when there is one of this name and it shall not be replaced.
    """
    connection = await open_connection()
    await check_set_up(connection)
    name = input.schedule
    input = input.model_copy(update={"ui_address": connection.ui_address})
    wanted = make_schedule(input, options, schedule_queue())

    def updated(current: ScheduleUpdateInput) -> ScheduleUpdate:
        state = current.description.schedule.state
        kept = replace(state, paused=state.paused or options.paused)
        return ScheduleUpdate(schedule=replace(wanted, state=kept))

    try:
        try:
            await call(lambda: connection.client.create_schedule(schedule_id(name), wanted))
        except ScheduleAlreadyRunningError:
            if not replace_it:
                raise UsageError(
                    f"there is a schedule {name!r} already; give it this plan with --replace"
                ) from None
            handle = handle_of(connection, name)
            await call(lambda: handle.update(updated))
    except RPCError as error:
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            raise ConfigurationError(f"the server refuses the schedule: {error.message}") from None
        raise
    return await _facts(connection, name)


async def list_schedules() -> tuple[list[ScheduleFacts], list[str]]:
    """All schedules of AgentCompass in the namespace, by name, and what is wrong with those that cannot be read."""
    connection = await open_connection()
    found: list[ScheduleFacts] = []
    problems: list[str] = []
    for name in await _names(connection):
        try:
            description = await call(handle_of(connection, name).describe)
            found.append(await read_facts(connection, description, actions=1))
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise  # one that was deleted in this moment: the list of names may lag behind
        except AgentCompassError as error:
            problems.append(str(error))
    return found, problems


async def show(name: str) -> ScheduleFacts:
    """One schedule. Raises ``UsageError`` when there is none of this name."""
    return await _facts(await open_connection(), name)


async def pause(name: str, reason: str = "") -> tuple[bool, ScheduleFacts]:
    """Start nothing until ``resume``; False when it was paused before."""
    connection = await open_connection()
    description = await describe(connection, name)
    if description.schedule.state.paused:
        return False, await read_facts(connection, description)
    handle = handle_of(connection, name)
    await call(lambda: handle.pause(note=reason or "paused by `agentcompass schedule pause`"))
    return True, await _facts(connection, name)


async def resume(name: str) -> tuple[bool, ScheduleFacts]:
    """Start launches again; False when it was not paused."""
    connection = await open_connection()
    description = await describe(connection, name)
    if not description.schedule.state.paused:
        return False, await read_facts(connection, description)
    handle = handle_of(connection, name)
    await call(lambda: handle.unpause(note="resumed by `agentcompass schedule resume`"))
    return True, await _facts(connection, name)


async def trigger(name: str) -> tuple[StartedAction | None, ScheduleFacts]:
    """Start a launch now, as if it were time. The action is ``None`` when none was started.

    That is so when an earlier launch is not over and the schedule skips overlaps.
    """
    connection = await open_connection()
    before = await _facts(connection, name)
    handle = handle_of(connection, name)
    await call(handle.trigger)
    known = {(item.workflow_id, item.started_at) for item in before.actions}
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + TRIGGER_SECONDS
    pause_seconds = 0.1
    while True:
        facts = await _facts(connection, name)
        fresh = (item for item in facts.actions if (item.workflow_id, item.started_at) not in known)
        action = next(fresh, None)
        # A worker that is there gives the launch its id within a moment.
        settled = facts.skipped > before.skipped if action is None else action.launch_id or not facts.served
        if settled or loop.time() >= give_up_at:
            return action, facts
        await asyncio.sleep(pause_seconds)
        pause_seconds = min(1.0, pause_seconds * 1.5)


async def delete(name: str) -> tuple[ScheduleFacts, list[str]]:
    """Remove a schedule; launches that it started go on.

    Returns what it was, and for each launch that waits for a worker how it can be ended: nobody is there who could
    cancel it, and nothing of it has begun.
    """
    connection = await open_connection()
    facts = await _facts(connection, name)
    handle = handle_of(connection, name)
    await call(handle.delete)
    place = f"--address {connection.address} --namespace {connection.namespace}"
    return facts, [
        f"temporal workflow terminate {place} --workflow-id {shlex.quote(item.workflow_id)}"
        for item in facts.actions
        if item.outcome == WAITING
    ]


def handle_of(connection: Connection, name: str) -> ScheduleHandle:
    return connection.client.get_schedule_handle(schedule_id(name))


async def describe(connection: Connection, name: str) -> ScheduleDescription:
    """Raises ``UsageError`` with the nearest name when there is no such schedule."""
    if is_schedule_name(name):
        try:
            return await call(handle_of(connection, name).describe)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
    known = await _names(connection)
    hint = nearest(name, known) if known else "; there is none yet: agentcompass schedule create --help"
    raise UsageError(f"there is no schedule {name!r}{hint}")


async def _facts(connection: Connection, name: str) -> ScheduleFacts:
    return await read_facts(connection, await describe(connection, name))


async def _names(connection: Connection) -> list[str]:
    listed = await call(connection.client.list_schedules)
    return sorted(
        [
            item.id.removeprefix(SCHEDULE_PREFIX)
            async for item in listed
            if item.id.startswith(SCHEDULE_PREFIX)
        ]
    )
