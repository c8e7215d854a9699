"""What is told of a schedule, read from the server."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from urllib.parse import quote

from pydantic import Field, JsonValue
from temporalio.client import (
    Client,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionResult,
    ScheduleDescription,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from ...contracts import search_attributes as attributes
from ...contracts.base import Contract
from ...contracts.launch import LaunchSpec
from ...contracts.schedules import SCHEDULE_PREFIX, OverlapPolicy, ScheduledLaunchResult
from ..config import masked_spec
from ..connection import Connection
from ..troubles import is_polled
from .definition import input_of, overlap_of, task_queue_of

NEXT_TIMES = 5
WAITING = "waiting"
"""The outcome of an action that no worker has taken up yet."""
FORGOTTEN = "forgotten"
"""The outcome of an action whose history is over its retention."""


class StartedAction(Contract):
    """A launch that the schedule started, or is about to."""

    scheduled_at: datetime
    started_at: datetime
    workflow_id: str
    launch_id: str = ""
    outcome: str
    message: str = ""
    """Why it did not end well, or how it compares with the run before it."""
    ui_address: str | None = None


class ScheduleFacts(Contract):
    """A schedule, what it starts, and what has become of that."""

    name: str
    cron: str
    timezone: str
    paused: bool
    note: str = ""
    next_times: list[datetime] = Field(default_factory=list)
    overlap: OverlapPolicy | None = None
    catchup_window_seconds: float
    fail_on_regression: bool = False
    task_queue: str
    served: bool
    """Whether a worker polls the queue."""
    started: int = 0
    skipped: int = 0
    """Times that were left out because of an earlier launch."""
    missed: int = 0
    """Times that no server was there for until the catch-up window had passed."""
    actions: list[StartedAction] = Field(default_factory=list)
    """The latest ones first."""
    plan: LaunchSpec
    ui_address: str | None = None


async def read_facts(
    connection: Connection, description: ScheduleDescription, *, actions: int | None = None
) -> ScheduleFacts:
    """Everything about one schedule, with its latest ``actions`` (all that are known). Raises ``AgentCompassError`` when it is not one of ours."""
    client = connection.client
    input = await input_of(client, description)
    queue = task_queue_of(description)
    info, policy, state = description.info, description.schedule.policy, description.schedule.state
    recent = sorted(info.recent_actions, key=lambda item: item.started_at, reverse=True)
    found = await asyncio.gather(*(_read_action(connection, item) for item in recent[:actions]))
    return ScheduleFacts(
        name=description.id.removeprefix(SCHEDULE_PREFIX),
        cron=input.cron,
        timezone=input.timezone,
        paused=state.paused,
        note=state.note or "",
        next_times=[] if state.paused else info.next_action_times[:NEXT_TIMES],
        overlap=overlap_of(description),
        catchup_window_seconds=policy.catchup_window.total_seconds() if policy.catchup_window else 0.0,
        fail_on_regression=input.fail_on_regression,
        task_queue=queue,
        served=await is_polled(client, queue),
        started=info.num_actions,
        skipped=info.num_actions_skipped_overlap,
        missed=info.num_actions_missed_catchup_window,
        actions=found,
        plan=input.spec,
        ui_address=ui_address(connection, "schedules", description.id),
    )


def ui_address(connection: Connection, kind: str, identity: str) -> str | None:
    """A page of the Temporal UI, when its address is known."""
    base = connection.ui_address
    return f"{base}/namespaces/{connection.namespace}/{kind}/{quote(identity, safe='')}" if base else None


async def _read_action(connection: Connection, action: ScheduleActionResult) -> StartedAction:
    execution = action.action
    assert isinstance(execution, ScheduleActionExecutionStartWorkflow)  # there is no other kind
    workflow_id = execution.workflow_id
    found = StartedAction(
        scheduled_at=action.scheduled_at.astimezone(UTC),
        started_at=action.started_at.astimezone(UTC),
        workflow_id=workflow_id,
        outcome=FORGOTTEN,
        ui_address=ui_address(connection, "workflows", workflow_id),
    )
    handle = workflow_of(connection.client, workflow_id, execution.first_execution_run_id)
    try:
        description = await handle.describe()
        message = await _message(handle, description.status)
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return found
        raise
    launch_id = _attribute(description, attributes.LAUNCH)
    return found.model_copy(
        update={"launch_id": launch_id, "outcome": _outcome(description, launch_id), "message": message}
    )


def workflow_of(
    client: Client, workflow_id: str, run_id: str | None = None
) -> WorkflowHandle[object, ScheduledLaunchResult]:
    """The workflow of one scheduled time."""
    return client.get_workflow_handle(workflow_id, run_id=run_id, result_type=ScheduledLaunchResult)


def facts_json(facts: ScheduleFacts) -> dict[str, JsonValue]:
    """A schedule for programs, the secrets of its plan masked."""
    values: dict[str, JsonValue] = facts.model_dump(mode="json", exclude={"plan"})
    return values | {"plan": masked_spec(facts.plan)}


def _outcome(description: WorkflowExecutionDescription, launch_id: str) -> str:
    if description.status is WorkflowExecutionStatus.RUNNING:
        return "running" if launch_id else WAITING
    status = description.status.name.lower() if description.status else "unknown"
    return _attribute(description, attributes.OUTCOME) or status


async def _message(
    handle: WorkflowHandle[object, ScheduledLaunchResult], status: WorkflowExecutionStatus | None
) -> str:
    """What a workflow that is over has to say."""
    if status is WorkflowExecutionStatus.RUNNING:
        return ""
    try:
        result = await handle.result()
    except WorkflowFailureError as error:
        return str(error.cause)
    return "; ".join(f"{key}: {text}" for key, text in result.comparisons.items())


def _attribute(description: WorkflowExecutionDescription, name: str) -> str:
    return description.typed_search_attributes.get(SearchAttributeKey.for_keyword(name)) or ""
