"""The trajectory of the agent."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from ....contracts.result import Observation, TrajectoryStep
from ....contracts.task import Message
from ..conversation import steps_of
from .state import Turn


def steps_so_far(start: Sequence[Message], turns: Sequence[Turn]) -> list[TrajectoryStep]:
    """A step for each message of the task, each turn, and each thing said to the model beside."""
    steps = steps_of(start)
    for turn in turns:
        steps.append(_step(turn, len(steps) + 1))
        if turn.note:
            steps.append(TrajectoryStep(step_id=len(steps) + 1, source="user", message=turn.note))
    return steps


def _step(turn: Turn, number: int) -> TrajectoryStep:
    response = turn.response
    extra: dict[str, JsonValue] = dict(response.extra)
    if turn.estimated:
        extra["estimated_tokens"] = turn.tokens
    if turn.shortening is not None:
        extra["conversation_shortened"] = turn.shortening.model_dump(mode="json")
    return TrajectoryStep(
        step_id=number,
        source="agent",
        timestamp=turn.finished_at,
        message=response.content,
        reasoning=response.reasoning,
        tool_calls=response.tool_calls,
        observations=[
            Observation(tool_call_id=outcome.call_id, content=outcome.text) for outcome in turn.outcomes
        ],
        model=response.model or None,
        usage=response.usage,
        latency_seconds=response.latency_seconds,
        stop_reason=response.stop_reason,
        cost_usd=turn.cost_usd,
        extra=extra,
    )
