"""A conversation before the task, and what else the agent is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from harbor_tasks import make_task

from agentcompass.plugins.benchmarks.harbor.folder import InvalidTaskError, TaskFolder
from agentcompass.plugins.benchmarks.harbor.instruction import conversation


def told(folder: Path, *steps: dict[str, Any], **more: Any) -> TaskFolder:
    make_task(folder)
    document = {"schema_version": "ATIF-v1.8", "steps": list(steps), "final_metrics": {}, **more}
    (folder / "trajectory.json").write_text(json.dumps(document))
    return TaskFolder(folder)


def test_steps_become_messages_and_every_call_has_an_answer(tmp_path: Path) -> None:
    call = {"tool_call_id": "c", "function_name": "functions.run", "arguments": {"command": "ls"}}
    silent = {"tool_call_id": "d", "function_name": "run", "arguments": {}}
    folder = told(
        tmp_path / "t",
        {"step_id": 1, "source": "system", "message": "Be brief."},
        {"step_id": 2, "source": "user", "message": [{"type": "text", "text": "Look."}]},
        {
            "step_id": 3,
            "source": "agent",
            "message": "",
            "tool_calls": [call, silent],
            "observation": {"results": [{"source_call_id": "c", "content": "file"}, {"content": "note"}]},
        },
        {"step_id": 4, "source": "agent", "message": "I looked.", "tool_calls": [call]},
        {"step_id": 5, "source": "system", "message": "The clock has moved."},
    )
    found = [
        (
            message.role,
            message.content,
            message.tool_call_id,
            [call["id"] for call in message.tool_calls or []],
        )
        for message in conversation(folder)
    ]
    assert found == [
        ("system", "Be brief.", None, []),
        ("user", "Look.", None, []),
        ("assistant", "", None, ["before_1", "before_2"]),
        ("tool", "file", "before_1", []),
        ("tool", "", "before_2", []),
        ("user", "note", None, []),
        ("assistant", "I looked.", None, ["before_3"]),
        ("tool", "", "before_3", []),
        ("user", "The clock has moved.", None, []),
    ]


def test_names_of_tools_are_such_as_every_protocol_takes(tmp_path: Path) -> None:
    call = {"tool_call_id": "c", "function_name": "a.b c", "arguments": {}}
    folder = told(tmp_path / "t", {"source": "agent", "message": "", "tool_calls": [call]})
    [message, _] = conversation(folder)
    assert message.tool_calls is not None and message.tool_calls[0]["name"] == "a_b_c"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no ATIF trajectory"),
        ('{"steps": []}', "is no ATIF trajectory: steps"),
        ('{"steps": [{"source": "robot"}]}', "steps.0.source"),
        (
            '{"steps": [{"source": "user", "message": [{"type": "image"}]}]}',
            "not text, which is not supported",
        ),
    ],
)
def test_what_is_no_conversation_is_refused(tmp_path: Path, content: str, message: str) -> None:
    make_task(tmp_path / "t")
    (tmp_path / "t/trajectory.json").write_text(content)
    with pytest.raises(InvalidTaskError, match=r"trajectory\.json") as caught:
        conversation(TaskFolder(tmp_path / "t"))
    assert message in str(caught.value)


def test_a_task_without_one_begins_with_its_instruction(tmp_path: Path) -> None:
    make_task(tmp_path / "t")
    assert conversation(TaskFolder(tmp_path / "t")) == []
