"""What histories tell of pauses, where no worker can be asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.history.v1 import HistoryEvent

from agentcompass.activities.data_converter import data_converter
from agentcompass.cli.silent_launch import PauseWords, hear
from agentcompass.contracts.endpoints import EndpointState, Refusal
from agentcompass.contracts.workflows import (
    ENDPOINT_SIGNAL,
    PARKED_SIGNAL,
    PAUSE_SIGNAL,
    RESUME_SIGNAL,
    ParkedAttempt,
    ParkReason,
    RequestInput,
)

REFUSED = EndpointState(
    endpoint="host#1", number=1, refusal=Refusal(request="a", message="401 from the endpoint")
)
MENDED = EndpointState(endpoint="host#1", number=2)
PARKED = ParkedAttempt(workflow_id="launch/l/a/t/a1", reason=ParkReason.BLOCKED, message="no credit")


async def told(*signals: tuple[str, Any]) -> str:
    converter, found = data_converter(), PauseWords()
    client: Any = SimpleNamespace(data_converter=converter)
    for name, *arguments in signals:
        event = HistoryEvent()
        event.workflow_execution_signaled_event_attributes.signal_name = name
        event.workflow_execution_signaled_event_attributes.input.payloads.extend(
            await converter.encode(arguments)
        )
        await hear(client, event, found, RequestInput)
    return found.reason


@pytest.mark.parametrize(
    ("signals", "reason"),
    [
        ([], ""),
        ([(PAUSE_SIGNAL, "lunch")], "lunch"),
        ([(PAUSE_SIGNAL,)], "paused by an operator"),
        ([(PAUSE_SIGNAL, "lunch"), (RESUME_SIGNAL,)], ""),
        ([(PARKED_SIGNAL, PARKED)], "no credit"),
        ([(ENDPOINT_SIGNAL, REFUSED)], "401 from the endpoint"),
        ([(PARKED_SIGNAL, PARKED), (ENDPOINT_SIGNAL, REFUSED), (ENDPOINT_SIGNAL, MENDED)], ""),
        ([(ENDPOINT_SIGNAL, REFUSED), (PAUSE_SIGNAL, "lunch"), (ENDPOINT_SIGNAL, MENDED)], "lunch"),
        ([(ENDPOINT_SIGNAL, REFUSED), (RESUME_SIGNAL, MENDED)], ""),
    ],
)
async def test_the_last_word_counts(signals: list[tuple[str, Any]], reason: str) -> None:
    assert await told(*signals) == reason
