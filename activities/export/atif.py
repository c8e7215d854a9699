"""A trajectory of ours as ATIF. Nothing is lost: what ATIF has no place for goes under ``extra``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import cast

from pydantic import JsonValue

from ...contracts.atif import (
    AtifAgent,
    AtifFinalMetrics,
    AtifMetrics,
    AtifObservation,
    AtifResult,
    AtifStep,
    AtifToolCall,
    AtifTrajectory,
)
from ...contracts.result import ToolCall, Trajectory, TrajectoryStep, Usage
from ...plugins.models.protocol import arguments_object

TOOL_DEFINITIONS = "tool_definitions"
"""Key of ``Trajectory.extra`` under which a harness leaves the tools of its agent."""


def to_atif(
    trajectory: Trajectory, *, session_id: str, agent: str, version: str, model: str
) -> AtifTrajectory | None:
    """The trajectory as ATIF; ``None`` for one without steps, which ATIF does not know."""
    if not trajectory.steps:
        return None
    steps = [_step(step, number, model) for number, step in enumerate(trajectory.steps, start=1)]
    extra = {key: value for key, value in trajectory.extra.items() if key != TOOL_DEFINITIONS}
    return AtifTrajectory(
        session_id=session_id,
        trajectory_id=session_id,
        agent=AtifAgent(
            name=agent,
            version=version,
            model_name=model or None,
            tool_definitions=_tool_definitions(trajectory.extra.get(TOOL_DEFINITIONS)),
        ),
        steps=steps,
        final_metrics=_totals(steps),
        extra=extra or None,
    )


def _step(step: TrajectoryStep, number: int, model: str) -> AtifStep:
    by_agent = step.source == "agent"
    calls = _calls(step.tool_calls, number)
    extra: dict[str, JsonValue] = dict(step.extra)
    extra |= _present(stop_reason=step.stop_reason, latency_seconds=step.latency_seconds)
    if not by_agent:
        extra |= _present(
            model=step.model,
            reasoning=step.reasoning,
            tool_calls=[call.model_dump(mode="json") for call in step.tool_calls] or None,
        )
    return AtifStep(
        step_id=number,
        timestamp=_time(step.timestamp),
        source=step.source,
        message=_text(step.message),
        model_name=step.model if by_agent and step.model and step.model != model else None,
        reasoning_content=step.reasoning if by_agent else None,
        tool_calls=(calls or None) if by_agent else None,
        observation=_observation(step, calls if by_agent else []),
        metrics=_metrics(step.usage, step.cost_usd) if by_agent else None,
        extra=extra or None,
    )


def _present(**values: JsonValue) -> dict[str, JsonValue]:
    return {key: value for key, value in values.items() if value is not None}


def _calls(calls: list[ToolCall], step: int) -> list[AtifToolCall]:
    """Calls that lack an id, or share one, get ids of our own."""
    found: list[AtifToolCall] = []
    seen: set[str] = set()
    for position, call in enumerate(calls, start=1):
        call_id = call.id if call.id and call.id not in seen else f"step_{step}_call_{position}"
        seen.add(call_id)
        arguments = arguments_object(call.arguments)
        found.append(AtifToolCall(tool_call_id=call_id, function_name=call.name, arguments=arguments))
    return found


def _observation(step: TrajectoryStep, calls: list[AtifToolCall]) -> AtifObservation | None:
    if not step.observations:
        return None
    known = {call.tool_call_id for call in calls}
    results = [
        AtifResult(
            source_call_id=seen.tool_call_id if seen.tool_call_id in known else None,
            content=None if seen.content is None else _text(seen.content),
        )
        for seen in step.observations
    ]
    return AtifObservation(results=results)


def _text(value: JsonValue) -> str:
    """Text as it is, parts of a message joined, anything else as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        return "\n".join(_part(cast(dict[str, JsonValue], part)) for part in value)
    return json.dumps(value, ensure_ascii=False)


def _part(part: dict[str, JsonValue]) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else json.dumps(part, ensure_ascii=False)


def _time(seconds: float | None) -> str | None:
    """ISO 8601; a harness of an extension may have written any number."""
    if seconds is None or not math.isfinite(seconds):
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat()
    except (OverflowError, ValueError, OSError):
        return None


def _metrics(usage: Usage | None, cost: float | None) -> AtifMetrics | None:
    usage = usage or Usage()
    facts = (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.reasoning_tokens, cost)
    if all(fact is None for fact in facts):
        return None
    return AtifMetrics(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        cost_usd=cost,
        extra=_present(reasoning_tokens=usage.reasoning_tokens) or None,
    )


def _totals(steps: list[AtifStep]) -> AtifFinalMetrics:
    reported = [step.metrics for step in steps if step.metrics]
    cost = [item.cost_usd for item in reported if item.cost_usd is not None]
    return AtifFinalMetrics(
        total_prompt_tokens=_sum(item.prompt_tokens for item in reported),
        total_completion_tokens=_sum(item.completion_tokens for item in reported),
        total_cached_tokens=_sum(item.cached_tokens for item in reported),
        total_cost_usd=sum(cost) if cost else None,
        total_steps=len(steps),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _tool_definitions(value: JsonValue) -> list[dict[str, JsonValue]] | None:
    if not isinstance(value, list):
        return None
    tools = [tool for tool in value if isinstance(tool, dict)]
    return [tool if "function" in tool else {"type": "function", "function": tool} for tool in tools] or None
