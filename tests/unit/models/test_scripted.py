"""The scripted client and the recorder, as extension authors use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentcompass.contracts import (
    ConfigurationError,
    Issue,
    IssuePhase,
    Message,
    ModelSpec,
    Severity,
    StageFailure,
    ToolCall,
)
from agentcompass.plugins.models import (
    Conversation,
    ModelResponse,
    RecordingClient,
    ScriptedClient,
    model_problem,
    require_output,
)
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
    with pytest.raises(ConfigurationError, match=r"script\.jsonl:3: contents: Extra inputs"):
        ScriptedClient.from_file(script)


def script_of(folder: Path, *lines: dict[str, Any]) -> Path:
    script = folder / "answers.jsonl"
    script.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return script


async def contents(script: Path, conversation: Conversation, calls: int) -> list[str]:
    client = ScriptedClient.from_file(script, conversation)
    return [(await client.generate(ASK)).content for _ in range(calls)]


async def test_a_task_gets_its_own_lines_and_others_the_common_ones(tmp_path: Path) -> None:
    script = script_of(
        tmp_path,
        {"content": "common"},
        {"task": "t1", "content": "first"},
        {"task": "t1", "content": "second"},
        {"task": "t1", "attempt": 2, "content": "again"},
    )
    assert await contents(script, Conversation("t1", 1), 2) == ["first", "second"]
    assert await contents(script, Conversation("t1", 2), 1) == ["again"]
    assert await contents(script, Conversation("t2", 1), 1) == ["common"]


async def test_the_worker_that_takes_over_gets_the_next_answer(tmp_path: Path) -> None:
    script = script_of(tmp_path, {"content": "1"}, {"content": "2"})
    assert await contents(script, Conversation("t", 1, answered=1), 1) == ["2"]


async def test_a_recorded_retry_replaces_what_it_repeated(tmp_path: Path) -> None:
    lines = [
        {"task": "t", "call": number, "content": text} for number, text in [(1, "a"), (2, "b"), (1, "c")]
    ]
    script = script_of(tmp_path, *lines)
    assert await contents(script, Conversation("t", 1), 1) == ["c"]
    with pytest.raises(ScriptExhaustedError, match=r"call 2 has no answer: the script .* for task 't' has 1"):
        await contents(script, Conversation("t", 1), 2)


async def test_a_recording_goes_on_where_it_stopped_and_holds_no_key(tmp_path: Path) -> None:
    script = tmp_path / "recorded.jsonl"
    for answered in (0, 1):
        echo = ScriptedClient([ModelResponse(content="your key is sk-very-secret")])
        conversation = Conversation("t", 1, answered)
        recorder = RecordingClient(echo, script, conversation, secret="sk-very-secret")
        await recorder.generate(ASK)
    assert "sk-very-secret" not in script.read_text()
    assert await contents(script, Conversation("t", 1), 2) == ["your key is ***"] * 2


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[1]", "not an object"),
        ('{"content": ', "not JSON"),
        ('{"task": "", "content": "4"}', "task: String should have at least 1 character"),
        ('{"severity": "bad", "phase": "run", "code": "c", "message": "m"}', "severity: Input should be"),
    ],
)
def test_a_model_with_a_broken_script_is_refused(tmp_path: Path, line: str, problem: str) -> None:
    script = tmp_path / "answers.jsonl"
    script.write_text(line)
    refusal = model_problem(ModelSpec(id="scripted", params={"script": str(script)}))
    assert refusal is not None and f"answers.jsonl:1: {problem}" in refusal


def test_a_missing_script_and_one_without_its_protocol_are_refused(tmp_path: Path) -> None:
    absent = {"script": str(tmp_path / "absent.jsonl")}
    refusal = model_problem(ModelSpec(id="scripted", params=absent))
    assert refusal is not None and refusal.endswith("cannot be read: No such file or directory")
    other = ModelSpec(id="m", base_url="http://127.0.0.1:1", params=absent)
    assert model_problem(other) == "model.params.script belongs to protocol scripted"


def test_an_answer_that_was_cut_before_it_began_says_so() -> None:
    with pytest.raises(StageFailure) as caught:
        require_output(ModelResponse(content=" \n", model="m", stop_reason="length"))
    issue = caught.value.issue
    assert (issue.severity, issue.code) == (Severity.ERROR, "model_empty_output")
    assert issue.message == "model 'm' answered without text or tool call: it reached its token limit first"


def test_a_tool_call_alone_is_an_output() -> None:
    response = ModelResponse(tool_calls=[ToolCall(name="f")])
    assert require_output(response) is response


def test_a_recording_into_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    record = {"record": str(tmp_path / "absent" / "answers.jsonl")}
    refusal = model_problem(ModelSpec(id="m", base_url="http://127.0.0.1:1", params=record))
    assert refusal == f"model.params.record: there is no folder {tmp_path / 'absent'}"
