"""Whether a launch is paused that nobody serves: what its workflows were told is in their histories."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from ..contracts.errors import ConfigurationError
from ..contracts.search_attributes import LAUNCH
from ..contracts.workflows import (
    PARKED_SIGNAL,
    PAUSE_SIGNAL,
    REQUEST_WORKFLOW,
    RESUME_SIGNAL,
    LaunchInput,
    ParkedAttempt,
    ParkReason,
    RequestInput,
    launch_workflow_id,
)

_MOST_REQUESTS = 8
"""Whose histories are read; they may be long."""


async def why_paused(client: Client, launch_id: str) -> str:
    """The reason; empty when it is not paused. A history that cannot be read tells nothing."""
    launch = client.get_workflow_handle(launch_workflow_id(launch_id))
    reason = await _told(client, launch, LaunchInput)
    if reason:
        return reason
    query = (
        f'WorkflowType = "{REQUEST_WORKFLOW}" AND ExecutionStatus = "Running" AND {LAUNCH} = "{launch_id}"'
    )
    async for item in client.list_workflows(query, limit=_MOST_REQUESTS):
        reason = await _told(client, client.get_workflow_handle(item.id), RequestInput)
        if reason:
            return reason
    return ""


async def _told(client: Client, workflow: WorkflowHandle[Any, Any], input_type: type[BaseModel]) -> str:
    """What the last word about pausing was, of those before this run and in it."""
    paused = ""
    try:
        async for event in workflow.fetch_history_events():
            paused = await _after(client, event, paused, input_type)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
    except (ValidationError, ValueError, RuntimeError, ConfigurationError):
        return paused  # of another version, or encrypted with a key that this process does not have
    return paused


async def _after(client: Client, event: HistoryEvent, paused: str, input_type: type[BaseModel]) -> str:
    decode = client.data_converter.decode
    if event.HasField("workflow_execution_started_event_attributes"):
        started = event.workflow_execution_started_event_attributes
        if not started.input.payloads:
            return paused  # started by hand
        [input] = await decode(started.input.payloads, [input_type])
        return input.state.paused if input.state else ""
    if not event.HasField("workflow_execution_signaled_event_attributes"):
        return paused
    signal = event.workflow_execution_signaled_event_attributes
    if signal.signal_name == RESUME_SIGNAL:
        return ""
    if signal.signal_name == PAUSE_SIGNAL:
        told = await decode(signal.input.payloads)
        reason = told[0] if told and isinstance(told[0], str) else ""
        return reason or paused or "paused by an operator"
    if signal.signal_name == PARKED_SIGNAL and signal.input.payloads:
        [attempt] = await decode(signal.input.payloads, [ParkedAttempt])
        return attempt.message if attempt.reason is ParkReason.BLOCKED else paused
    return paused
