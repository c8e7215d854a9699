"""The state of a launch, asked of its workflows; or read from its result when it is over."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from temporalio.client import WorkflowExecutionStatus, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from ..activities.store.files import find_model
from ..contracts.errors import RecordError
from ..contracts.launch import LaunchResult, LaunchStatus, RequestStatus
from ..contracts.records import ProgressSnapshot
from ..contracts.workflows import STATUS_QUERY

if TYPE_CHECKING:
    from .launcher import LaunchHandle

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
    found = await _query(handle, handle.workflow.id, LaunchStatus)
    if found is None:
        return await _without_worker(handle)
    requests = await asyncio.gather(*(_request_status(handle, item) for item in found.requests))
    return found.model_copy(update={"requests": list(requests)})


async def _request_status(handle: LaunchHandle, item: RequestStatus) -> RequestStatus:
    if item.run_dir:
        return item  # it is over, and the launch knows how
    return await _query(handle, item.workflow_id, RequestStatus) or item


async def _query(handle: LaunchHandle, workflow_id: str, result: type[StatusT]) -> StatusT | None:
    workflow = handle.connection.client.get_workflow_handle(workflow_id)
    try:
        found: StatusT = await workflow.query(STATUS_QUERY, result_type=result, rpc_timeout=_QUERY_TIMEOUT)
        return found
    except WorkflowQueryFailedError:
        return None  # not started yet: nothing to tell
    except RPCError as error:
        if error.status in _NO_ANSWER:
            return None
        raise


async def _without_worker(handle: LaunchHandle) -> LaunchStatus:
    """What the server alone can tell."""
    description = await handle.workflow.describe()
    if description.status is WorkflowExecutionStatus.RUNNING:
        message = "no worker answers" + (
            f"; go on with: agentcompass attach {handle.launch_id}" if handle.worker else ""
        )
        return LaunchStatus(launch_id=handle.launch_id, state="running", message=message)
    if description.status is WorkflowExecutionStatus.COMPLETED:
        return status_of_result(await handle.workflow.result())
    name = description.status.name.lower() if description.status else "unknown"
    return LaunchStatus(
        launch_id=handle.launch_id,
        state="cancelled" if description.status is WorkflowExecutionStatus.CANCELED else "failed",
        message=f"the launch workflow is {name}",
    )


def status_of_result(result: LaunchResult) -> LaunchStatus:
    """The state of a launch that is over."""
    requests = [
        RequestStatus(
            key=item.key,
            workflow_id="",
            run_dir=item.run_dir,
            run_id=item.run_id,
            state=item.status,
            benchmark=item.benchmark,
            harness=item.harness,
            model=item.model,
            environment=item.environment,
            total_tasks=item.total_tasks,
            finished_tasks=item.total_tasks - item.unavailable_tasks,
            failed_tasks=item.invalidated_tasks,
            error_tasks=item.error_tasks,
            message=item.error,
        )
        for item in result.requests
    ]
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
