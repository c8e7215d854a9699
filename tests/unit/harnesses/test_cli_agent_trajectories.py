"""What command-line agents write, read: recorded outputs of the real programs, and hostile ones.

The recordings in ``tests/data/cli_agents`` are of one task each: the agent runs
``echo hi > made.txt; cat made.txt`` and then answers "The answer is 42.".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcompass.contracts import ToolCall, Usage
from agentcompass.plugins.harnesses.cli_agent.description import TrajectoryFormat
from agentcompass.plugins.harnesses.cli_agent.trajectories import (
    ParsedTrajectory,
    UnreadableTrajectory,
    parse_trajectory,
)

DATA = Path(__file__).parents[2] / "data" / "cli_agents"
RECORDED = {
    "claude-code": TrajectoryFormat.STREAM_JSON,
    "qwen-code": TrajectoryFormat.STREAM_JSON,
    "codex": TrajectoryFormat.CODEX,
    "opencode": TrajectoryFormat.OPENCODE,
}
COMMAND = "echo hi > made.txt; cat made.txt"


def recorded(agent: str) -> bytes:
    return (DATA / f"{agent}.jsonl").read_bytes()


def parse(format: TrajectoryFormat, *values: Any) -> ParsedTrajectory:
    return parse_trajectory(format, b"".join(orjson.dumps(value) + b"\n" for value in values))


@pytest.mark.parametrize(("agent", "format"), RECORDED.items())
def test_a_recorded_run_has_its_call_its_output_its_tokens_and_its_answer(
    agent: str, format: TrajectoryFormat
) -> None:
    parsed = parse_trajectory(format, recorded(agent))
    assert (parsed.answer, parsed.problem) == ("The answer is 42.", None)
    steps = [step for step in parsed.steps if step.source == "agent"]
    [called] = [step for step in steps if step.tool_calls]
    assert COMMAND in json.dumps(called.tool_calls[0].arguments)
    assert str(called.observations[0].content).strip().startswith(("hi", "Command:"))
    assert called.observations[0].tool_call_id == called.tool_calls[0].id
    assert any(step.message == "I run it." for step in steps)
    usages = [step.usage for step in steps if step.usage and step.usage.prompt_tokens]
    assert sum(usage.prompt_tokens or 0 for usage in usages) == 22
    assert sum(usage.completion_tokens or 0 for usage in usages) == 14
    assert [step.step_id for step in parsed.steps] == list(range(1, len(parsed.steps) + 1))


def test_openhands_answers_with_its_tool_finish_and_counts_no_tokens() -> None:
    parsed = parse_trajectory(TrajectoryFormat.OPENHANDS, recorded("openhands"))
    assert (parsed.answer, parsed.problem) == ("The answer is 42.", None)
    task, called, finished = parsed.steps
    assert (task.source, called.message) == ("user", "I run it.")
    assert [call.name for step in (called, finished) for call in step.tool_calls] == ["terminal", "finish"]
    assert "hi" in str(called.observations[0].content)
    assert all(step.timestamp is not None and step.usage is None for step in parsed.steps)


@pytest.mark.parametrize(("agent", "format"), [*RECORDED.items(), ("openhands", TrajectoryFormat.OPENHANDS)])
def test_a_run_that_was_killed_at_any_byte_is_read_as_far_as_it_went(
    agent: str, format: TrajectoryFormat
) -> None:
    data = recorded(agent)
    before = 0
    for end in range(0, len(data), 97):
        try:
            count = len(parse_trajectory(format, data[:end]).steps)
        except UnreadableTrajectory:
            count = 0
        assert count >= before
        before = count


def test_claude_code_tells_its_version_and_cost() -> None:
    parsed = parse_trajectory(TrajectoryFormat.STREAM_JSON, recorded("claude-code"))
    assert (parsed.agent_version, parsed.cost_usd) == ("2.1.197", 0.00046)


def test_the_blocks_of_one_answer_are_one_step() -> None:
    for agent in ("claude-code", "qwen-code"):
        first, last = parse_trajectory(TrajectoryFormat.STREAM_JSON, recorded(agent)).steps
        assert (first.message, len(first.tool_calls), last.message) == ("I run it.", 1, "The answer is 42.")


def test_an_error_of_claude_code_is_a_problem_and_no_answer() -> None:
    said = {"type": "assistant", "message": {"id": "1", "content": [{"type": "text", "text": "x"}]}}
    result = {"type": "result", "subtype": "error_max_turns", "is_error": True, "result": "stopped"}
    parsed = parse(TrajectoryFormat.STREAM_JSON, said, result)
    assert (parsed.problem, parsed.answer) == ("error_max_turns: stopped", None)


def test_tokens_of_the_cache_are_prompt_tokens() -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2}
    message = {"id": "1", "content": [], "usage": {**usage, "output_tokens": 5}}
    [step] = parse(TrajectoryFormat.STREAM_JSON, {"type": "assistant", "message": message}).steps
    assert step.usage == Usage(prompt_tokens=16, completion_tokens=5, cached_tokens=4)


def test_a_failed_turn_of_codex_is_a_problem() -> None:
    parsed = parse(TrajectoryFormat.CODEX, {"type": "turn.failed", "error": {"message": "401 Unauthorized"}})
    assert parsed.problem == "401 Unauthorized"


def test_mini_swe_agent() -> None:
    response = {"model": "m", "usage": {"prompt_tokens": 10, "completion_tokens": 5}}
    call = {"id": "c", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    document = {
        "info": {"mini_version": "2.4.6", "exit_status": "LimitsExceeded", "submission": ""},
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "u"},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [call],
                "extra": {"response": response, "cost": 0.5, "timestamp": 1.7e9},
            },
            {"role": "tool", "tool_call_id": "c", "content": "a.txt"},
            {"role": "exit", "content": "LimitsExceeded"},
        ],
    }
    parsed = parse(TrajectoryFormat.MINI_SWE_AGENT, document)
    assert parsed.problem == "mini-swe-agent stopped: LimitsExceeded"
    assert (parsed.answer, parsed.agent_version) == ("I look.", "2.4.6")
    step = parsed.steps[2]
    assert step.tool_calls == [ToolCall(id="c", name="bash", arguments={"command": "ls"})]
    assert (step.observations[0].content, step.cost_usd, step.timestamp) == ("a.txt", 0.5, 1.7e9)
    assert step.usage == Usage(prompt_tokens=10, completion_tokens=5)


def test_openhands() -> None:
    call = {"id": "c", "name": "terminal", "arguments": '{"command": "ls"}', "origin": "completion"}
    action = {
        "kind": "ActionEvent",
        "source": "agent",
        "timestamp": "2026-01-01T00:00:00",
        "thought": [{"type": "text", "text": "I look."}],
        "reasoning_content": "hm",
        "tool_name": "terminal",
        "tool_call_id": "c",
        "tool_call": call,
        "llm_response_id": "r1",
    }
    seen = {
        "kind": "ObservationEvent",
        "tool_name": "terminal",
        "tool_call_id": "c",
        "observation": {"kind": "TerminalObservation", "content": [{"type": "text", "text": "a.txt"}]},
    }
    finish = {
        **action,
        "tool_name": "finish",
        "tool_call_id": "d",
        "tool_call": {"id": "d", "name": "finish", "arguments": '{"message": "42"}'},
        "llm_response_id": "r2",
    }
    asked = {
        "kind": "MessageEvent",
        "source": "user",
        "llm_message": {"content": [{"type": "text", "text": "Do."}]},
    }
    parsed = parse(TrajectoryFormat.OPENHANDS, asked, action, seen, finish)
    assert (parsed.answer, [step.source for step in parsed.steps]) == ("42", ["user", "agent", "agent"])
    assert (parsed.steps[1].message, parsed.steps[1].reasoning) == ("I look.", "hm")
    assert parsed.steps[1].observations[0].content == "a.txt"


def test_atif() -> None:
    document = {
        "schema_version": "ATIF-v1.6",
        "agent": {"name": "x", "version": "3"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "Do."},
            {
                "step_id": 2,
                "source": "agent",
                "message": "42",
                "tool_calls": [{"tool_call_id": "c", "function_name": "f", "arguments": {}}],
                "observation": {"results": [{"source_call_id": "c", "content": "ok"}]},
                "metrics": {"prompt_tokens": 1, "completion_tokens": 2},
            },
        ],
    }
    parsed = parse(TrajectoryFormat.ATIF, document)
    assert (parsed.answer, parsed.agent_version) == ("42", "3")
    assert parsed.steps[1].observations[0].tool_call_id == "c"


def test_text_is_the_answer() -> None:
    assert parse_trajectory(TrajectoryFormat.TEXT, b" 42\xff\n").answer == "42\N{REPLACEMENT CHARACTER}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    "type kind message content id usage item part state tokens error result extra info messages role steps"
    " tool_calls observation llm_message tool_call tool_call_id tool_name timestamp text source schema_version".split()
)
WORDS = st.sampled_from(
    "assistant user result system item.completed turn.completed turn.failed step_start text tool_use step_finish"
    " ActionEvent MessageEvent ObservationEvent tool agent ATIF-v1.8 command_execution".split()
)
EVENT = st.dictionaries(KEYS, WORDS | JSON | st.dictionaries(KEYS, WORDS | JSON, max_size=4), max_size=6)


@settings(max_examples=150, deadline=None)
@given(format=st.sampled_from(list(TrajectoryFormat)), events=st.lists(EVENT, max_size=5))
def test_hostile_events_are_read_or_called_unreadable(
    format: TrajectoryFormat, events: list[dict[str, Any]]
) -> None:
    data = b"\n".join(json.dumps(event).encode() for event in events)
    try:
        parsed = parse_trajectory(format, data)
    except UnreadableTrajectory:
        return
    json.loads(parsed.model_dump_json())


@pytest.mark.parametrize("format", [item for item in TrajectoryFormat if item is not TrajectoryFormat.TEXT])
@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 10_000, b"null", b"Traceback"])
def test_what_is_no_trajectory_is_called_unreadable(format: TrajectoryFormat, data: bytes) -> None:
    with pytest.raises(UnreadableTrajectory):
        parse_trajectory(format, data)
