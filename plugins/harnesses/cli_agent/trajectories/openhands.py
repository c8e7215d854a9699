"""``openhands --headless --json``: a line for each event of the conversation."""

from __future__ import annotations

from .....contracts.result import Observation, ToolCall, TrajectoryStep
from ....models.json_values import JsonObject, arguments_of
from .parsed import (
    ParsedTrajectory,
    UnreadableTrajectory,
    json_lines,
    object_in,
    shown,
    text_in,
    unix_time,
)


def read_openhands(data: bytes) -> ParsedTrajectory:
    """Actions of one answer of the model are one step, observations belong to the step of their call."""
    parsed = ParsedTrajectory()
    response_id = ""
    for event in json_lines(data):
        kind = text_in(event, "kind")
        if kind == "ActionEvent":
            same = bool(response_id) and response_id == text_in(event, "llm_response_id")
            response_id = text_in(event, "llm_response_id")
            _add_action(parsed, event, same)
        elif kind == "MessageEvent":
            _add_message(parsed, event)
        elif text_in(event, "tool_call_id"):
            _add_observation(parsed.steps, event)
        elif "Error" in kind:
            parsed.problem = (text_in(event, "detail") or text_in(event, "error") or kind)[:500]
    if not parsed.steps and parsed.problem is None:
        raise UnreadableTrajectory("no event in the agent's output")
    return parsed


def _add_action(parsed: ParsedTrajectory, event: JsonObject, same: bool) -> None:
    steps = parsed.steps
    if not (same and steps and steps[-1].source == "agent"):
        steps.append(
            TrajectoryStep(
                step_id=len(steps) + 1,
                source="agent",
                timestamp=unix_time(event.get("timestamp")),
                message=shown(event.get("thought") or ""),
                reasoning=text_in(event, "reasoning_content") or None,
            )
        )
    name = text_in(event, "tool_name") or "unknown"
    arguments = arguments_of(object_in(event, "tool_call").get("arguments"))
    call = ToolCall(id=text_in(event, "tool_call_id"), name=name, arguments=arguments)
    steps[-1].tool_calls.append(call)
    if name == "finish" and isinstance(arguments, dict):
        parsed.answer = text_in(arguments, "message") or parsed.answer


def _add_message(parsed: ParsedTrajectory, event: JsonObject) -> None:
    by_agent = text_in(event, "source") == "agent"
    text = shown(object_in(event, "llm_message").get("content"))
    if by_agent:
        parsed.answer = text or parsed.answer
    parsed.steps.append(
        TrajectoryStep(
            step_id=len(parsed.steps) + 1,
            source="agent" if by_agent else "user",
            timestamp=unix_time(event.get("timestamp")),
            message=text,
        )
    )


def _add_observation(steps: list[TrajectoryStep], event: JsonObject) -> None:
    call_id = text_in(event, "tool_call_id")
    content = shown(object_in(event, "observation").get("content")) or text_in(event, "error")
    owner = next(
        (step for step in reversed(steps) if any(call.id == call_id for call in step.tool_calls)), None
    )
    if owner is not None:
        owner.observations.append(Observation(tool_call_id=call_id, content=content))
