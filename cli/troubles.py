"""What keeps a running launch from getting on, as far as the Temporal server can tell.

A worker that is not there, workflow code that fails, activities that fail and are tried again: all
of it is retried without end and so looks like nothing at all from outside.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import (
    EventType,
    PendingActivityState,
    PendingWorkflowTaskState,
    TaskQueueType,
    WorkerVersioningMode,
)
from temporalio.api.failure.v1 import Failure
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import (
    DescribeTaskQueueRequest,
    DescribeTaskQueueResponse,
    DescribeWorkflowExecutionResponse,
    GetWorkflowExecutionHistoryReverseRequest,
)
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.exceptions import FailureError
from temporalio.service import RPCError, RPCStatusCode

from ..activities.retry_log import RETRY_MARK
from ..contracts.errors import ConfigurationError
from ..contracts.launch import OVER_STATES, LaunchStatus

if TYPE_CHECKING:
    from .launch_handle import LaunchHandle

LOOK_SECONDS = 10.0
"""How often whoever follows a launch looks for troubles: it costs a call for each attempt in flight."""
MAX_ATTEMPTS = 20
"""Attempts in flight that are looked at, the oldest first."""
POLLED_WITHIN_SECONDS = 90.0
"""A worker polls at least once a minute; the server remembers those that are gone for five."""
LONG_STEP_SECONDS = 60.0
HOST_WAIT_SECONDS = 30.0
"""Longer than a host is away that is only restarted."""
RECENT_SECONDS = 120.0
_LAST_EVENTS = 20
_LOG_BYTES = 256_000
"""Far enough back: the SDK writes a traceback for every try."""
_LINE = re.compile(rf"^(?P<at>\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d)\S* \w+ \S+: (?P<text>.*{RETRY_MARK}.*)$")


class TroubleWatch:
    """Adds troubles to the status of a launch that is being followed, without asking at every poll."""

    def __init__(self) -> None:
        self._next_look = time.monotonic() + LOOK_SECONDS / 2
        self._found: list[str] = []
        self._silent = False

    async def look(self, handle: LaunchHandle, status: LaunchStatus) -> LaunchStatus:
        """``status`` with the troubles that were found last.

        A worker of our own that has just been started may be slow to answer for the first time.
        """
        silent = not status.requests and status.state not in OVER_STATES
        if silent and handle.worker is not None and not self._silent:
            status = status.model_copy(update={"message": ""})
        self._silent = silent
        if time.monotonic() >= self._next_look:
            self._found = await find_troubles(handle, status)
            self._next_look = time.monotonic() + LOOK_SECONDS
        return status.model_copy(update={"troubles": self._found})


async def find_troubles(handle: LaunchHandle, status: LaunchStatus) -> list[str]:
    """One line for each kind of trouble of a launch that is not over."""
    if status.state in OVER_STATES:
        return []
    client = handle.connection.client
    log = f"see {handle.worker.log_path}" if handle.worker else "see the log of the workers"
    requests = [item.workflow_id for item in status.requests if item.state not in OVER_STATES]
    outer = await _described(client, [handle.workflow.id, *requests])
    attempts = [child.workflow_id for _, answer in outer[1:] for child in answer.pending_children]
    found: Counter[str] = Counter()
    for workflow_id, answer in [*outer, *await _described(client, attempts[:MAX_ATTEMPTS])]:
        found.update(await _of_workflow(client, workflow_id, answer, log))
    lines = [f"{text} ({count} workflows)" if count > 1 else text for text, count in found.items()]
    if handle.worker is not None:
        lines += _recent_retries(handle.worker.log_tail(_LOG_BYTES))
    return lines


async def who_polls(client: Client, queue: str) -> str:
    """Why nobody may answer on a task queue: no worker polls it, or one that polled it is silent."""
    answer = await _ask_queue(client, queue)
    if answer is None:
        return f"no worker of the task queue {queue!r} answers"
    if advice := _no_current_version(answer, queue):
        return advice
    age = _since_last_poll(answer)
    if age < POLLED_WITHIN_SECONDS:
        return f"no worker answers; the task queue {queue!r} was last polled {age:.0f} s ago"
    return (
        f"no worker polls the task queue {queue!r}; start one with: agentcompass worker --task-queue {queue}"
    )


async def is_polled(client: Client, queue: str) -> bool:
    """Whether a worker polls a task queue; taken for granted where the server does not tell."""
    answer = await _ask_queue(client, queue)
    return answer is None or _since_last_poll(answer) < POLLED_WITHIN_SECONDS


async def _ask_queue(client: Client, queue: str) -> DescribeTaskQueueResponse | None:
    """Who polls a queue for workflows; ``None`` where we may not ask."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    try:
        return await client.workflow_service.describe_task_queue(request)
    except RPCError as error:
        if error.status is RPCStatusCode.PERMISSION_DENIED:
            return None
        raise


def _since_last_poll(answer: DescribeTaskQueueResponse) -> float:
    """Seconds."""
    last = max((poller.last_access_time.seconds for poller in answer.pollers), default=0)
    return max(0.0, time.time() - last)


def _no_current_version(answer: DescribeTaskQueueResponse, queue: str) -> str:
    """Workers of a deployment get nothing until one of its versions is the current one."""
    if answer.versioning_info.HasField("current_deployment_version"):
        return ""
    versioned = [
        poller.deployment_options
        for poller in answer.pollers
        if poller.deployment_options.worker_versioning_mode
        == WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED
    ]
    if not versioned or len(versioned) < len(answer.pollers):
        return ""
    name, build = versioned[0].deployment_name, versioned[0].build_id
    return (
        f"workers poll the task queue {queue!r}, but no version of their deployment is the current one: temporal worker "
        f"deployment set-current-version --deployment-name {name} --build-id {build}"
    )


async def _described(
    client: Client, workflow_ids: Sequence[str]
) -> list[tuple[str, DescribeWorkflowExecutionResponse]]:
    answers = await asyncio.gather(*(_describe(client, item) for item in workflow_ids))
    return [(name, answer) for name, answer in zip(workflow_ids, answers, strict=True) if answer is not None]


async def _describe(client: Client, workflow_id: str) -> DescribeWorkflowExecutionResponse | None:
    """``None`` for a workflow that is over, or not there yet."""
    try:
        description = await client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    running = description.status is WorkflowExecutionStatus.RUNNING
    return description.raw_description if running else None


async def _of_workflow(
    client: Client, workflow_id: str, answer: DescribeWorkflowExecutionResponse, log: str
) -> list[str]:
    found = []
    task = answer.pending_workflow_task
    if task.attempt > 1 and (problem := await _last_task_failure(client, workflow_id)):
        kind = answer.workflow_execution_info.type.name
        found.append(f"the code of {kind} fails and is tried again: {problem}; {log}")
    elif task.state == PendingWorkflowTaskState.PENDING_WORKFLOW_TASK_STATE_STARTED:
        seconds = time.time() - task.original_scheduled_time.seconds
        if seconds > LONG_STEP_SECONDS:
            found.append(
                f"a step inside the worker has been going on for more than {LONG_STEP_SECONDS:g} s; {log}"
            )
    for activity in answer.pending_activities:
        if waiting := _waiting_for_host(activity):
            found.append(waiting)
        elif activity.attempt > 1 and activity.HasField("last_failure"):
            problem = _first_line(await _message_of(client, activity.last_failure))
            found.append(f"activity {activity.activity_type.name} {RETRY_MARK}: {problem}")
    return found


def _waiting_for_host(activity: PendingActivityInfo) -> str:
    """A phase whose environment only one host has, and which nobody has taken for a while."""
    queue, limit = (
        activity.activity_options.task_queue.name,
        activity.activity_options.schedule_to_start_timeout,
    )
    if activity.state != PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED or not queue.startswith(
        "host/"
    ):
        return ""
    seconds = time.time() - activity.scheduled_time.ToSeconds()
    if seconds < min(HOST_WAIT_SECONDS, limit.ToSeconds() / 2 or HOST_WAIT_SECONDS):
        return ""
    then = (
        f"given up after {limit.ToSeconds()} s if it is gone"
        if limit.ToSeconds()
        else "waited for without end"
    )
    return f"{activity.activity_type.name} waits for a worker of {queue}, which is {then}"


async def _last_task_failure(client: Client, workflow_id: str) -> str:
    """Why a workflow task failed last; empty when none did, as after the loss of a worker."""
    answer = await client.workflow_service.get_workflow_execution_history_reverse(
        GetWorkflowExecutionHistoryReverseRequest(
            namespace=client.namespace,
            execution=WorkflowExecution(workflow_id=workflow_id),
            maximum_page_size=_LAST_EVENTS,
        )
    )
    for event in answer.history.events:
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED:
            failure = event.workflow_task_failed_event_attributes.failure
            return _first_line(await _message_of(client, failure))
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            break
    return ""


async def _message_of(client: Client, failure: Failure) -> str:
    """What a failure says, decrypted where messages are encrypted."""
    if not failure.HasField("encoded_attributes"):
        return failure.message
    try:
        error = await client.data_converter.decode_failure(failure)
    except ConfigurationError as unreadable:
        # A worker with another key: that is the trouble itself, and no reason to end this command.
        return f"a worker's message cannot be read: {unreadable}"
    return error.message if isinstance(error, FailureError) else str(error)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")[:300]


def _recent_retries(tail: str) -> list[str]:
    """What a worker on this machine logged last of its own steps, which no server knows of."""
    since = datetime.now(UTC).timestamp() - RECENT_SECONDS
    found = [match for line in tail.splitlines() if (match := _LINE.match(line))]
    recent = [match["text"] for match in found if datetime.fromisoformat(match["at"]).timestamp() >= since]
    return recent[-1:]
