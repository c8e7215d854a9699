"""``codex exec --json``: a line for each event; items that the agent completed become steps."""

from __future__ import annotations

from pydantic import JsonValue

from .....contracts.result import Observation, ToolCall, TrajectoryStep, Usage
from ....models.json_values import JsonObject, count_in
from .parsed import (
    ParsedTrajectory,
    UnreadableTrajectory,
    charge_whole_run,
    json_lines,
    object_in,
    shown,
    text_in,
)

_USAGE = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_output_tokens")


def read_codex(data: bytes) -> ParsedTrajectory:
    """Texts and reasoning of the agent, and its calls with what came back."""
    parsed = ParsedTrajectory()
    totals: dict[str, int] = {}
    for line in json_lines(data):
        match text_in(line, "type"):
            case "item.completed":
                _add(parsed, object_in(line, "item"))
            case "turn.completed":
                for name in _USAGE:
                    count = count_in(line, "usage", name)
                    if count is not None:
                        totals[name] = totals.get(name, 0) + count
            case "turn.failed":
                parsed.problem = text_in(object_in(line, "error"), "message")[:500] or "the turn failed"
    if not parsed.steps and parsed.problem is None:
        raise UnreadableTrajectory("no event in the agent's output")
    if totals:
        usage = Usage(
            prompt_tokens=totals.get("input_tokens"),
            completion_tokens=totals.get("output_tokens"),
            cached_tokens=totals.get("cached_input_tokens"),
            reasoning_tokens=totals.get("reasoning_output_tokens"),
        )
        charge_whole_run(parsed.steps, usage, None)
    return parsed


def _add(parsed: ParsedTrajectory, item: JsonObject) -> None:
    kind, number = text_in(item, "type"), len(parsed.steps) + 1
    if kind == "agent_message":
        parsed.answer = text_in(item, "text") or parsed.answer
        parsed.steps.append(TrajectoryStep(step_id=number, source="agent", message=text_in(item, "text")))
    elif kind == "reasoning":
        parsed.steps.append(TrajectoryStep(step_id=number, source="agent", reasoning=text_in(item, "text")))
    elif kind == "error":
        parsed.steps.append(TrajectoryStep(step_id=number, source="system", message=text_in(item, "message")))
    elif kind:
        call_id = text_in(item, "id")
        arguments, output = _call(kind, item)
        parsed.steps.append(
            TrajectoryStep(
                step_id=number,
                source="agent",
                tool_calls=[ToolCall(id=call_id, name=kind, arguments=arguments)],
                observations=[Observation(tool_call_id=call_id, content=output)],
            )
        )


def _call(kind: str, item: JsonObject) -> tuple[JsonValue, str]:
    """Arguments and output of a call; of kinds that we do not know the whole item are the arguments."""
    if kind == "command_execution":
        output = f"{text_in(item, 'aggregated_output')}\n[exit status {item.get('exit_code')}]"
        return {"command": text_in(item, "command")}, output.lstrip("\n")
    known = {key: value for key, value in item.items() if key not in ("id", "type", "status", "result")}
    return known, shown(item.get("result")) or text_in(item, "status")
