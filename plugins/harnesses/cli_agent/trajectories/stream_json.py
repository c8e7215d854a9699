"""``--output-format stream-json`` of Claude Code and Qwen Code: a line for each message, a result at the end."""

from __future__ import annotations

from .....contracts.result import Observation, ToolCall, TrajectoryStep, Usage
from ....models.json_values import JsonObject, amount_in, count_in
from .parsed import (
    ParsedTrajectory,
    UnreadableTrajectory,
    charge_whole_run,
    json_lines,
    object_in,
    objects_in,
    shown,
    text_in,
    unix_time,
)


def read_stream_json(data: bytes) -> ParsedTrajectory:
    """An answer may come in several lines, one for each of its blocks: they are one step.

    Claude Code gives them one id; Qwen Code counts no tokens in those before the last.
    """
    parsed = ParsedTrajectory()
    message_id = ""
    unfinished = False
    for line in json_lines(data):
        match text_in(line, "type"):
            case "system":
                version = text_in(line, "claude_code_version") or text_in(line, "qwen_code_version")
                parsed.agent_version = version or parsed.agent_version
            case "assistant":
                message = object_in(line, "message")
                same = unfinished or (bool(message_id) and message_id == text_in(message, "id"))
                message_id = text_in(message, "id")
                _add_assistant(parsed.steps, message, same)
                unfinished = _counts_nothing(object_in(message, "usage"))
            case "user":
                _add_results(parsed.steps, line)
                message_id, unfinished = "", False
            case "result":
                _finish(parsed, line)
    if not parsed.steps and not parsed.answer and not parsed.problem:
        raise UnreadableTrajectory("no message in the agent's output")
    return parsed


def _add_assistant(steps: list[TrajectoryStep], message: JsonObject, same: bool) -> None:
    if not (same and steps and steps[-1].source == "agent"):
        steps.append(
            TrajectoryStep(
                step_id=len(steps) + 1,
                source="agent",
                model=text_in(message, "model") or None,
                usage=_usage(object_in(message, "usage")),
            )
        )
    step = steps[-1]
    for block in objects_in(message, "content"):
        match text_in(block, "type"):
            case "text":
                step.message = f"{step.message}\n{text_in(block, 'text')}".strip("\n")
            case "thinking":
                step.reasoning = f"{step.reasoning or ''}\n{text_in(block, 'thinking')}".strip("\n")
            case "tool_use":
                name = text_in(block, "name") or "unknown"
                call = ToolCall(id=text_in(block, "id"), name=name, arguments=block.get("input"))
                step.tool_calls.append(call)


def _add_results(steps: list[TrajectoryStep], line: JsonObject) -> None:
    message = object_in(line, "message")
    results = [part for part in objects_in(message, "content") if text_in(part, "type") == "tool_result"]
    if results and steps and steps[-1].source == "agent":
        steps[-1].observations += [
            Observation(tool_call_id=text_in(part, "tool_use_id") or None, content=shown(part.get("content")))
            for part in results
        ]
        return
    when = unix_time(line.get("timestamp"))
    text = shown(message.get("content"))
    steps.append(TrajectoryStep(step_id=len(steps) + 1, source="user", timestamp=when, message=text))


def _finish(parsed: ParsedTrajectory, line: JsonObject) -> None:
    """The totals of the last line count: the messages of a stream tell their tokens before they are made."""
    parsed.cost_usd = amount_in(line, "total_cost_usd")
    usage = object_in(line, "usage")
    if usage:
        charge_whole_run(parsed.steps, _usage(usage), parsed.cost_usd)
    text = text_in(line, "result")
    if line.get("is_error") is True or text_in(line, "subtype").startswith("error"):
        error = text_in(object_in(line, "error"), "message")
        parsed.problem = f"{text_in(line, 'subtype') or 'error'}: {error or text}"[:500]
    else:
        parsed.answer = text or None


def _counts_nothing(usage: JsonObject) -> bool:
    return count_in(usage, "input_tokens") == count_in(usage, "output_tokens") == 0


def _usage(usage: JsonObject) -> Usage:
    """Claude Code counts what went through the cache beside the input, Qwen Code within it."""
    fresh = count_in(usage, "input_tokens")
    read = count_in(usage, "cache_read_input_tokens")
    written = count_in(usage, "cache_creation_input_tokens")
    within = "total_tokens" in usage
    prompt = fresh if fresh is None or within else fresh + (read or 0) + (written or 0)
    return Usage(prompt_tokens=prompt, completion_tokens=count_in(usage, "output_tokens"), cached_tokens=read)
