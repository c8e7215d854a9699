"""``opencode run --format json``: a line for each part of a message; a step begins and ends with its own."""

from __future__ import annotations

from .....contracts.result import Observation, ToolCall, TrajectoryStep, Usage
from ....models.json_values import JsonObject, amount_in, count_in
from .parsed import (
    ParsedTrajectory,
    UnreadableTrajectory,
    json_lines,
    object_in,
    shown,
    text_in,
    unix_time,
)


def read_opencode(data: bytes) -> ParsedTrajectory:
    """A step for each call of the model, with its tools' outputs, tokens and cost."""
    parsed = ParsedTrajectory()
    costs: list[float] = []
    open_step = False
    for line in json_lines(data):
        kind, part = text_in(line, "type"), object_in(line, "part")
        if kind == "error":
            parsed.problem = shown(line.get("error"))[:500] or "error"
            continue
        if kind == "step_start" or (not open_step and kind in ("text", "reasoning", "tool_use")):
            number = len(parsed.steps) + 1
            when = unix_time(line.get("timestamp"))
            parsed.steps.append(TrajectoryStep(step_id=number, source="agent", timestamp=when))
            open_step = True
        if not parsed.steps:
            continue
        step = parsed.steps[-1]
        if kind == "step_finish":
            open_step = False
            _finish(step, part)
            costs += [step.cost_usd] if step.cost_usd is not None else []
        else:
            _add(parsed, step, kind, part)
    if not parsed.steps and parsed.problem is None:
        raise UnreadableTrajectory("no event in the agent's output")
    parsed.cost_usd = sum(costs) if costs else None
    return parsed


def _add(parsed: ParsedTrajectory, step: TrajectoryStep, kind: str, part: JsonObject) -> None:
    if kind == "text":
        step.message = f"{step.message}\n{text_in(part, 'text')}".strip("\n")
        parsed.answer = str(step.message) or parsed.answer
    elif kind == "reasoning":
        step.reasoning = f"{step.reasoning or ''}\n{text_in(part, 'text')}".strip("\n")
    elif kind == "tool_use":
        state, call_id = object_in(part, "state"), text_in(part, "callID")
        name = text_in(part, "tool") or "unknown"
        step.tool_calls.append(ToolCall(id=call_id, name=name, arguments=state.get("input")))
        output = shown(state.get("output")) or text_in(state, "error")
        step.observations.append(Observation(tool_call_id=call_id, content=output))


def _finish(step: TrajectoryStep, part: JsonObject) -> None:
    fresh = count_in(part, "tokens", "input")
    read = count_in(part, "tokens", "cache", "read")
    written = count_in(part, "tokens", "cache", "write")
    step.usage = Usage(
        prompt_tokens=None if fresh is None else fresh + (read or 0) + (written or 0),
        completion_tokens=count_in(part, "tokens", "output"),
        cached_tokens=read,
        reasoning_tokens=count_in(part, "tokens", "reasoning"),
    )
    step.cost_usd = amount_in(part, "cost") or None  # 0 is what it says of a model without a price
    step.stop_reason = text_in(part, "reason") or None
