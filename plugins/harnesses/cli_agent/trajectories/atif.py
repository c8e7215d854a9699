"""Agents that write ATIF themselves; any version 1.x, keys that we do not know are passed over."""

from __future__ import annotations

import orjson
from pydantic import JsonValue

from .....contracts.result import Observation, ToolCall, TrajectoryStep, Usage
from ....models.json_values import JsonObject, amount_in, depth_exceeds
from .parsed import (
    MAX_DEPTH,
    ParsedTrajectory,
    UnreadableTrajectory,
    object_in,
    objects_in,
    shown,
    text_in,
    unix_time,
    usage_in,
)

_SOURCES = ("system", "user", "agent")


def read_atif(data: bytes) -> ParsedTrajectory:
    """Steps in their order, numbered anew; the last text of the agent is its answer."""
    try:
        document: JsonValue = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise UnreadableTrajectory(f"not JSON: {error}") from None
    if depth_exceeds(document, MAX_DEPTH) or not text_in(document, "schema_version").startswith("ATIF-v1."):
        raise UnreadableTrajectory("not an ATIF trajectory of version 1")
    steps = [_step(step, number) for number, step in enumerate(objects_in(document, "steps"), start=1)]
    texts = (str(step.message) for step in reversed(steps) if step.source == "agent" and step.message)
    return ParsedTrajectory(
        steps=steps,
        answer=next(texts, None),
        agent_version=text_in(object_in(document, "agent"), "version") or None,
        cost_usd=amount_in(object_in(document, "final_metrics"), "total_cost_usd"),
    )


def _step(step: JsonObject, number: int) -> TrajectoryStep:
    source = text_in(step, "source")
    metrics = object_in(step, "metrics")
    return TrajectoryStep(
        step_id=number,
        source=source if source in _SOURCES else "user",
        timestamp=unix_time(step.get("timestamp")),
        message=shown(step.get("message")),
        reasoning=text_in(step, "reasoning_content") or None,
        tool_calls=[
            ToolCall(
                id=text_in(call, "tool_call_id"),
                name=text_in(call, "function_name") or "unknown",
                arguments=call.get("arguments"),
            )
            for call in objects_in(step, "tool_calls")
        ],
        observations=[
            Observation(
                tool_call_id=text_in(seen, "source_call_id") or None, content=shown(seen.get("content"))
            )
            for seen in objects_in(object_in(step, "observation"), "results")
        ],
        model=text_in(step, "model_name") or None,
        usage=_usage(metrics),
        cost_usd=amount_in(metrics, "cost_usd"),
    )


def _usage(metrics: JsonObject) -> Usage | None:
    return usage_in(metrics, "prompt_tokens", "completion_tokens", "cached_tokens") if metrics else None
