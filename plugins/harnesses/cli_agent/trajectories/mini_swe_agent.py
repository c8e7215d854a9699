"""``mini --output FILE``: one JSON document, written again after every turn."""

from __future__ import annotations

import orjson
from pydantic import JsonValue

from .....contracts.result import Observation, ToolCall, TrajectoryStep
from ....models.json_values import JsonObject, amount_in, arguments_of, depth_exceeds
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

_DONE = ("", "Submitted")


def read_mini_swe_agent(data: bytes) -> ParsedTrajectory:
    """Messages as steps; what a tool returned belongs to the turn that called it."""
    try:
        document: JsonValue = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise UnreadableTrajectory(f"not JSON: {error}") from None
    if not isinstance(document, dict) or depth_exceeds(document, MAX_DEPTH):
        raise UnreadableTrajectory("not a trajectory of mini-swe-agent")
    steps: list[TrajectoryStep] = []
    for message in objects_in(document, "messages"):
        _add(steps, message)
    info = object_in(document, "info")
    stopped = text_in(info, "exit_status")
    return ParsedTrajectory(
        steps=steps,
        answer=text_in(info, "submission").strip() or _last_text(steps),
        agent_version=text_in(info, "mini_version") or None,
        cost_usd=amount_in(object_in(info, "model_stats"), "instance_cost") or None,
        problem=None if stopped in _DONE else f"mini-swe-agent stopped: {stopped}"[:500],
    )


def _add(steps: list[TrajectoryStep], message: JsonObject) -> None:
    role = text_in(message, "role")
    content = shown(message.get("content"))
    extra = object_in(message, "extra")
    when = unix_time(extra.get("timestamp"))
    if role == "tool" and steps and steps[-1].source == "agent":
        seen = Observation(tool_call_id=text_in(message, "tool_call_id") or None, content=content)
        steps[-1].observations.append(seen)
    elif role == "assistant":
        response = object_in(extra, "response")
        usage = response.get("usage")
        steps.append(
            TrajectoryStep(
                step_id=len(steps) + 1,
                source="agent",
                timestamp=when,
                message=content,
                reasoning=text_in(message, "reasoning_content") or None,
                tool_calls=[_call(call) for call in objects_in(message, "tool_calls")],
                model=text_in(response, "model") or None,
                usage=usage_in(usage, "prompt_tokens", "completion_tokens"),
                cost_usd=amount_in(extra, "cost") or None,  # 0 is what it says of a model without a price
            )
        )
    elif role in ("system", "user", "tool"):
        source = "system" if role == "system" else "user"
        steps.append(TrajectoryStep(step_id=len(steps) + 1, source=source, timestamp=when, message=content))


def _call(call: JsonObject) -> ToolCall:
    function = object_in(call, "function")
    return ToolCall(
        id=text_in(call, "id"),
        name=text_in(function, "name") or "unknown",
        arguments=arguments_of(function.get("arguments")),
    )


def _last_text(steps: list[TrajectoryStep]) -> str | None:
    texts = (str(step.message) for step in reversed(steps) if step.source == "agent" and step.message)
    return next(texts, None)
