"""Whether a launch is paused that nobody serves: what its workflows were told is in their histories."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from ..contracts.endpoints import EndpointState, EndpointView
from ..contracts.errors import ConfigurationError
from ..contracts.search_attributes import LAUNCH
from ..contracts.workflows import (
    ENDPOINT_SIGNAL,
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
"""Whose histories are read."""
_SECONDS = 3.0
"""For all of that: histories may be long."""


async def why_paused(client: Client, launch_id: str) -> str:
    """The reason; empty when it is not paused, and when that cannot be told in a short time.

    A launch of which one request stands still goes on: it is paused when an operator paused it, or all that runs is.
    """
    try:
        async with asyncio.timeout(_SECONDS):
            return await _reason(client, launch_id)
    except TimeoutError:
        return ""


async def _reason(client: Client, launch_id: str) -> str:
    launch = client.get_workflow_handle(launch_workflow_id(launch_id))
    by_operator = (await _told(client, launch, LaunchInput)).operator
    if by_operator:
        return by_operator
    query = (
        f'WorkflowType = "{REQUEST_WORKFLOW}" AND ExecutionStatus = "Running" AND {LAUNCH} = "{launch_id}"'
    )
    running = [item.id async for item in client.list_workflows(query, limit=_MOST_REQUESTS + 1)]
    if len(running) > _MOST_REQUESTS:
        return ""
    reasons = [
        (await _told(client, client.get_workflow_handle(name), RequestInput)).reason for name in running
    ]
    return reasons[0] if reasons and all(reasons) else ""


@dataclass
class PauseWords:
    """The last words about pausing, of those before this run and in it."""

    operator: str = ""
    parked: str = ""
    endpoints: EndpointView = field(default_factory=EndpointView)

    @property
    def reason(self) -> str:
        """For people; empty when nothing stands still."""
        refusals = [refusal.message for refusal in self.endpoints.refusals]
        return next(filter(None, (self.operator, self.parked, *refusals)), "")


async def _told(
    client: Client, workflow: WorkflowHandle[Any, Any], input_type: type[BaseModel]
) -> PauseWords:
    told = PauseWords()
    try:
        async for event in workflow.fetch_history_events():
            await hear(client, event, told, input_type)
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
    except (ValidationError, ValueError, RuntimeError, ConfigurationError):
        return told  # of another version, or encrypted with a key that this process does not have
    return told


async def hear(client: Client, event: HistoryEvent, told: PauseWords, input_type: type[BaseModel]) -> None:
    """Take in what an event of a launch's or a request's history says of pauses."""
    decode = client.data_converter.decode
    if event.HasField("workflow_execution_started_event_attributes"):
        started = event.workflow_execution_started_event_attributes
        if started.input.payloads:  # else it was started by hand
            [input] = await decode(started.input.payloads, [input_type])
            states = input.state.endpoints if input.state else getattr(input, "endpoint_states", [])
            told.operator, told.endpoints = input.state.paused if input.state else "", EndpointView(states)
        return
    if not event.HasField("workflow_execution_signaled_event_attributes"):
        return
    signal = event.workflow_execution_signaled_event_attributes
    payloads = signal.input.payloads
    if signal.signal_name == RESUME_SIGNAL:
        told.operator, told.parked, told.endpoints = "", "", EndpointView()
    elif signal.signal_name == PAUSE_SIGNAL:
        words = await decode(payloads)
        reason = words[0] if words and isinstance(words[0], str) else ""
        told.operator = reason or told.operator or "paused by an operator"
    elif signal.signal_name == PARKED_SIGNAL and payloads:
        [attempt] = await decode(payloads, [ParkedAttempt])
        told.parked = attempt.message if attempt.reason is ParkReason.BLOCKED else told.parked
    elif signal.signal_name == ENDPOINT_SIGNAL and payloads and input_type is RequestInput:
        [decision] = await decode(payloads, [EndpointState])
        told.endpoints.hear(decision)
        told.parked = told.parked if decision.refusal is not None else ""
