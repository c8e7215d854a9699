"""The scripted client and the recorder, as extension authors use them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.contracts import Issue, IssuePhase, Message, Severity, StageFailure, ToolCall
from agentcompass.plugins.models import ModelResponse, RecordingClient, ScriptedClient, require_output
from agentcompass.plugins.models.scripted import ScriptExhaustedError

ASK = [Message(role="user", content="2 + 2?")]
BUSY = Issue(severity=Severity.FATAL, phase=IssuePhase.RUN, code="model_rate_limited", message="busy")


async def test_answers_come_in_order_and_questions_are_remembered() -> None:
    client = ScriptedClient([ModelResponse(content="4"), ModelResponse(content="5")])
    assert [(await client.generate(ASK)).content for _ in range(2)] == ["4", "5"]
    assert [call.messages[0].content for call in client.calls] == ["2 + 2?", "2 + 2?"]


async def test_a_call_too_many_is_an_error_of_the_test() -> None:
    with pytest.raises(ScriptExhaustedError, match="call 1 has no answer: the script has 0"):
        await ScriptedClient([]).generate(ASK)


async def test_what_was_recorded_can_be_replayed(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    answer = ModelResponse(
        content="", tool_calls=[ToolCall(id="1", name="f", arguments={"a": [1]})], attempts=2
    )
    recorder = RecordingClient(ScriptedClient([answer, BUSY]), script)
    await recorder.generate(ASK)
    with pytest.raises(StageFailure):
        await recorder.generate(ASK)

    replay = ScriptedClient.from_file(script)
    assert await replay.generate(ASK) == answer
    with pytest.raises(StageFailure) as caught:
        await replay.generate(ASK)
    assert caught.value.issue == BUSY


def test_a_broken_script_names_file_and_line(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('{"content": "4"}\n\n{"contents": "5"}\n')
    with pytest.raises(ValueError, match=r"script\.jsonl:3: "):
        ScriptedClient.from_file(script)


def test_an_answer_that_was_cut_before_it_began_says_so() -> None:
    with pytest.raises(StageFailure) as caught:
        require_output(ModelResponse(content=" \n", model="m", stop_reason="length"))
    issue = caught.value.issue
    assert (issue.severity, issue.code) == (Severity.ERROR, "model_empty_output")
    assert issue.message == "model 'm' answered without text or tool call: it reached its token limit first"


def test_a_tool_call_alone_is_an_output() -> None:
    response = ModelResponse(tool_calls=[ToolCall(name="f")])
    assert require_output(response) is response
