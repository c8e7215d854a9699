"""The state of a launch, asked of its workflows; or read from its result when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from temporalio.client import Client, WorkflowExecutionStatus, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from ..activities.store.files import find_model
from ..contracts.errors import RecordError
from ..contracts.launch import OVER_STATES, LaunchResult, LaunchStatus, LaunchStatusName, RequestStatus
from ..contracts.records import ProgressSnapshot
from ..contracts.workflows import STATUS_QUERY
from .connection import is_outage
from .silent_launch import why_paused

if TYPE_CHECKING:
    from .launch_handle import LaunchHandle

StatusT = TypeVar("StatusT", LaunchStatus, RequestStatus)

_QUERY_TIMEOUT = timedelta(seconds=5)
_NO_ANSWER = {
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.FAILED_PRECONDITION,
    RPCStatusCode.NOT_FOUND,
}
"""What a query ends with while no worker or no server is there to answer it."""


async def read_status(handle: LaunchHandle) -> LaunchStatus:
    """Ask the launch and each of its running requests. Without a worker it says so in ``message``."""
    over = await _when_over(handle)  # first: nobody answers queries of a launch whose worker has left
    if over is not None:
        return over
    found = await ask_status(handle.connection.client, handle.workflow.id)
    return found if found is not None else await _without_worker(handle)


async def ask_status(
    client: Client, workflow_id: str, patience: timedelta = _QUERY_TIMEOUT
) -> LaunchStatus | None:
    """The answer of the launch with this workflow id; ``None`` when no worker gives one in time."""
    found = await _query(client, workflow_id, LaunchStatus, patience)
    if found is None:
        return None
    requests = await asyncio.gather(*(_request_status(client, item, patience) for item in found.requests))
    return found.model_copy(update={"requests": list(requests), "state": state_with(found, requests)})


def state_with(launch: LaunchStatus, requests: Sequence[RequestStatus]) -> LaunchStatusName:
    """A launch's state: paused, too, when its requests paused themselves.

    They do so when an endpoint refuses the account: the requests of others go on, and so does the launch.
    """
    unfinished = {item.state for item in requests if item.state not in OVER_STATES}
    waits = "paused" in unfinished and unfinished <= {"paused", "pending"}
    return "paused" if waits and launch.state == "running" else launch.state


async def _request_status(client: Client, item: RequestStatus, patience: timedelta) -> RequestStatus:
    if item.run_dir:
        return item  # it is over, and the launch knows how
    return await _query(client, item.workflow_id, RequestStatus, patience) or item


async def _query(
    client: Client, workflow_id: str, result: type[StatusT], patience: timedelta
) -> StatusT | None:
    workflow = client.get_workflow_handle(workflow_id)
    try:
        found: StatusT = await workflow.query(STATUS_QUERY, result_type=result, rpc_timeout=patience)
        return found
    except WorkflowQueryFailedError:
        return None  # not started yet: nothing to tell
    except RPCError as error:
        if error.status in _NO_ANSWER or is_outage(error):
            return None
        raise


async def _without_worker(handle: LaunchHandle) -> LaunchStatus:
    """What the server alone can tell."""
    over = await _when_over(handle)
    if over is not None:
        return over
    message = await _why_no_answer(handle)
    paused = await why_paused(handle.connection.client, handle.launch_id)
    if paused:
        return LaunchStatus(launch_id=handle.launch_id, state="paused", message=f"{paused}\n{message}")
    return LaunchStatus(launch_id=handle.launch_id, state="running", message=message)


async def _when_over(handle: LaunchHandle) -> LaunchStatus | None:
    """How a launch ended; ``None`` while it runs."""
    description = await handle.workflow.describe()
    if description.status is WorkflowExecutionStatus.RUNNING:
        return None
    if description.status is WorkflowExecutionStatus.COMPLETED:
        return status_of_result(await handle.workflow.result())
    name = description.status.name.lower() if description.status else "unknown"
    return LaunchStatus(
        launch_id=handle.launch_id,
        state="cancelled" if description.status is WorkflowExecutionStatus.CANCELED else "failed",
        message=f"the launch workflow is {name}",
    )


async def _why_no_answer(handle: LaunchHandle) -> str:
    from .troubles import who_polls

    if handle.worker is not None:
        if handle.worker.running():
            return f"its worker does not answer; see {handle.worker.log_path}"
        return f"no worker runs; go on with: agentcompass attach {handle.launch_id}"
    return await who_polls(handle.connection.client, handle.task_queue)


def status_of_result(result: LaunchResult) -> LaunchStatus:
    """The state of a launch that is over."""
    requests = [item.as_status() for item in result.requests]
    return LaunchStatus(
        launch_id=result.launch_id, state=result.status, requests=requests, message=result.error
    )


def read_snapshot(run_dir: str) -> ProgressSnapshot | None:
    """``progress.json`` of a run, when it is on this machine and readable."""
    if not run_dir:
        return None
    try:
        return find_model(Path(run_dir) / "progress.json", ProgressSnapshot)
    except RecordError:
        return None  # replaced or cut off in this moment; the next look finds it
