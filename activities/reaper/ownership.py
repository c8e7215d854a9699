"""Is anybody going to need an environment? Temporal knows, because it knows the attempt."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from .finding import Sighting

_TIMEOUT = timedelta(seconds=10)


class EnvironmentState(StrEnum):
    """What becomes of an environment."""

    LIVE = "live"
    """Its attempt is not over: it goes on, or will go on as soon as it has a worker."""
    CLOSED = "closed"
    """Its attempt is over."""
    KEPT = "kept"
    """Its attempt is over, and the run asked for its environments to be kept."""
    EXPIRED = "expired"
    """Its lease has run out, and nobody serves the attempt."""
    UNKNOWN = "unknown"
    """It belongs to somebody whom our Temporal does not know."""


class Owners:
    """Asks about attempts; made for one look at all environments, of which it remembers launches."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._running: dict[str, bool] = {}
        self._served: dict[str, bool] = {}

    async def state_of(self, sighting: Sighting, now: float) -> EnvironmentState:
        """The state at ``now`` (Unix seconds). Raises ``RPCError`` when the server does not tell."""
        owner = sighting.owner
        if owner is None:
            return EnvironmentState.UNKNOWN
        expired = sighting.expired(now)
        if owner.temporal != self._namespace:
            # Another server knows its attempt. It would have renewed the lease, were it alive.
            return EnvironmentState.EXPIRED if expired and sighting.renewed else EnvironmentState.UNKNOWN
        attempt = await self._describe(owner.workflow_id)
        if attempt is None or attempt.status is not WorkflowExecutionStatus.RUNNING:
            return EnvironmentState.KEPT if owner.keep else EnvironmentState.CLOSED
        if expired or not await self._is_running(owner.launch_workflow_id):
            # A night without a worker is no reason, and an attempt outlives its launch where others serve it.
            return (
                EnvironmentState.LIVE
                if await self._is_served(attempt.task_queue)
                else EnvironmentState.EXPIRED
            )
        return EnvironmentState.LIVE

    async def _describe(self, workflow_id: str) -> WorkflowExecutionDescription | None:
        """``None`` for one that never was, or whose history was removed long after its end."""
        try:
            return await self._client.get_workflow_handle(workflow_id).describe(rpc_timeout=_TIMEOUT)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise

    async def _is_running(self, workflow_id: str) -> bool:
        if workflow_id not in self._running:
            found = await self._describe(workflow_id)
            self._running[workflow_id] = found is not None and found.status is WorkflowExecutionStatus.RUNNING
        return self._running[workflow_id]

    async def _is_served(self, task_queue: str) -> bool:
        """Whether a worker has asked for work of the queue within the last minutes."""
        if task_queue not in self._served:
            answer = await self._client.workflow_service.describe_task_queue(
                DescribeTaskQueueRequest(
                    namespace=self._client.namespace,
                    task_queue=TaskQueue(name=task_queue),
                    task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
                ),
                timeout=_TIMEOUT,
            )
            self._served[task_queue] = bool(answer.pollers)
        return self._served[task_queue]
