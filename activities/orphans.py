"""Requests and attempts whose parent was ended from outside, as by *Terminate* in the Temporal UI.

A parent ends its children before it ends itself. One that is terminated cannot, and those children that have to outlive a
run of it are not ended by the server either. Workers look for them: a request is told to stop, an attempt is cancelled,
and both clean up as they always do.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from datetime import UTC, datetime, timedelta

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from ..contracts.search_attributes import LAUNCH
from ..contracts.workflows import ATTEMPT_WORKFLOW, REQUEST_WORKFLOW, STOP_SIGNAL

ORPHANS_SECONDS = 20.0
"""Between two looks of a worker process, a quarter more or less, so that many do not look together."""
_ALL_ATTEMPTS_EVERY = 6
"""Looks of a worker that serves all launches: attempts are many, and outlive a request only when that was terminated.
At the looks between, it asks for those of requests that ended so a short time ago."""
_SHORT_TIME = timedelta(minutes=10)
"""Much longer than what lies between two looks, clocks that differ, and what the server takes to list an end."""
_LEFT_SECONDS = 0.5
_REASON = "its launch was ended without it"
_log = logging.getLogger(__name__)


async def look_for_orphans(client: Client, launch_id: str = "") -> None:
    """End them, again and again until cancelled: of one launch, or of all that the server knows."""
    for look in itertools.count():
        try:
            await end_orphans(
                client, launch_id, all_attempts=bool(launch_id) or look % _ALL_ATTEMPTS_EVERY == 0
            )
        except RPCError as error:
            _log.warning("requests without a launch were not looked for: %s", error.message)
        await asyncio.sleep(ORPHANS_SECONDS * random.uniform(0.75, 1.25))


async def end_orphans(client: Client, launch_id: str = "", *, all_attempts: bool = True) -> int:
    """Ask requests and attempts to end whose parent is over; returns how many there were.

    Without ``all_attempts`` only attempts of requests that were terminated within the last minutes. Raises
    ``RPCError``. Asked twice, they end once.
    """
    orphans = await _orphans(client, launch_id, all_attempts=all_attempts)
    for item in orphans:
        await _end(client, item)
    return len(orphans)


async def queues_of_orphans(client: Client) -> dict[str, str]:
    """Launches that left requests or attempts behind, by id, and the task queue on which these wait.

    Raises ``RPCError``.
    """
    found: dict[str, str] = {}
    for item in await _orphans(client):
        launch_id = _launch_of(item)
        if launch_id and item.task_queue:
            found[launch_id] = item.task_queue
    return found


async def until_settled(client: Client, launch_id: str, seconds: float) -> None:
    """After a launch that was terminated: end what it left, and wait until that has cleaned up, ``seconds`` at most.

    Raises ``RPCError``, and ``TimeoutError``.
    """
    async with asyncio.timeout(seconds):
        while await end_orphans(client, launch_id):  # noqa: ASYNC110  # the server tells nobody of its own accord
            await asyncio.sleep(_LEFT_SECONDS)


async def _orphans(
    client: Client, launch_id: str = "", *, all_attempts: bool = True
) -> list[WorkflowExecution]:
    found = await _running(client, REQUEST_WORKFLOW, launch_id)
    if all_attempts:
        found += await _running(client, ATTEMPT_WORKFLOW, launch_id)
    else:
        found += await _attempts_of_ended_requests(client)
    parents = sorted({item.parent_id for item in found if item.parent_id})
    over = {name for name in parents if await _is_over(client, name)}
    return [item for item in found if item.parent_id in over]


async def _attempts_of_ended_requests(client: Client) -> list[WorkflowExecution]:
    """Of requests that ended a short time ago and not by themselves, which end when they have no attempts."""
    since = datetime.now(UTC) - _SHORT_TIME
    query = (
        f'WorkflowType = "{REQUEST_WORKFLOW}" AND CloseTime > "{since.isoformat()}" '
        'AND ExecutionStatus IN ("Terminated", "TimedOut", "Failed", "Canceled")'
    )
    ended = [item async for item in client.list_workflows(query)]
    names = {item.id for item in ended}
    launches = sorted({_launch_of(item) for item in ended} - {""})
    attempts = [item for launch in launches for item in await _running(client, ATTEMPT_WORKFLOW, launch)]
    return [item for item in attempts if item.parent_id in names]


def _launch_of(item: WorkflowExecution) -> str:
    return next((str(pair.value) for pair in item.typed_search_attributes if pair.key.name == LAUNCH), "")


async def _running(client: Client, kind: str, launch_id: str) -> list[WorkflowExecution]:
    query = f'WorkflowType = "{kind}" AND ExecutionStatus = "Running"'
    if launch_id:
        query += f" AND {LAUNCH} = {_quoted(launch_id)}"
    return [item async for item in client.list_workflows(query)]


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


async def _is_over(client: Client, workflow_id: str) -> bool:
    """Whether nobody of that id runs; the run that began a child may have continued as new."""
    try:
        found = await client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return True
        raise
    return found.status is not WorkflowExecutionStatus.RUNNING


async def _end(client: Client, item: WorkflowExecution) -> None:
    workflow = client.get_workflow_handle(item.id)
    try:
        if item.workflow_type == REQUEST_WORKFLOW:
            await workflow.signal(STOP_SIGNAL, args=["cancelled", _REASON])
        else:
            await workflow.cancel()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:  # it ended by itself in this moment
            raise
