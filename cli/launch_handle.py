"""A launch that was started: where it is, and how to speak to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from ..contracts.errors import UsageError
from ..contracts.launch import LaunchResult
from ..contracts.workflows import CANCEL_SIGNAL, launch_workflow_id, request_workflow_id
from .connection import Connection, reconnecting
from .worker_process import LaunchWorker

OUTAGE_SECONDS = 120.0
"""How long a command waits for a server that is gone, before it gives up on it."""

T = TypeVar("T")


@dataclass(frozen=True)
class LaunchHandle:
    """A launch that was started, and how to reach it."""

    launch_id: str
    connection: Connection
    worker: LaunchWorker | None
    """In embedded mode: the launch's own worker on this machine."""
    task_queue: str
    concurrency: int

    @property
    def ui_address(self) -> str | None:
        """The launch's page in the Temporal UI."""
        base = self.connection.ui_address
        if base is None:
            return None
        encoded = quote(launch_workflow_id(self.launch_id), safe="")
        return f"{base}/namespaces/{self.connection.namespace}/workflows/{encoded}"

    @property
    def workflow(self) -> WorkflowHandle[object, LaunchResult]:
        """The launch workflow."""
        return self.connection.client.get_workflow_handle(
            launch_workflow_id(self.launch_id), result_type=LaunchResult
        )

    def ensure_worker(self) -> bool:
        """Restart the launch's worker if it is gone; True when it was started."""
        if self.worker is None:
            return False
        return self.worker.ensure(self.task_queue, self.concurrency, self.connection.address)


async def call(function: Callable[[], Awaitable[T]]) -> T:
    """Call the server, riding out a restart of it."""
    return await reconnecting(function, deadline=OUTAGE_SECONDS)


async def describe(handle: LaunchHandle) -> WorkflowExecutionDescription:
    """What the server knows of it. Raises ``UsageError`` when there is none."""
    try:
        return await call(handle.workflow.describe)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            if handle.worker is not None and not handle.worker.running():
                handle.worker.forget()  # after the loss of the database: else `doctor` would go on telling of it
            raise UsageError(
                f"there is no launch {handle.launch_id!r}; `agentcompass list` shows those there are"
            ) from None
        raise


async def is_running(handle: LaunchHandle) -> bool:
    """Whether the launch is not over. Raises ``UsageError`` when there is none."""
    return (await describe(handle)).status is WorkflowExecutionStatus.RUNNING


async def send_signal(handle: LaunchHandle, name: str, *arguments: object) -> bool:
    """Send a signal; False when the launch is over already."""
    if not await is_running(handle):
        return False
    try:
        await call(lambda: handle.workflow.signal(name, args=list(arguments)))
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False  # it ended in this moment
    return True


async def send_to_request(handle: LaunchHandle, request: str, name: str, *arguments: object) -> bool:
    """Send a signal to one request; False when the launch is over already. Raises ``UsageError`` when that one does not run."""
    if not await is_running(handle):
        return False
    workflow_id = request_workflow_id(handle.launch_id, request)
    workflow = handle.connection.client.get_workflow_handle(workflow_id)
    try:
        await call(lambda: workflow.signal(name, args=list(arguments)))
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        raise UsageError(
            f"no request {request!r} of launch {handle.launch_id} runs: it is unknown, has not begun, or is over; "
            f"see: agentcompass status {handle.launch_id}"
        ) from None
    return True


async def request_cancel(handle: LaunchHandle, reason: str) -> None:
    """Send the cancel signal; a launch that is over takes none, and that is fine."""
    await send_signal(handle, CANCEL_SIGNAL, reason)
