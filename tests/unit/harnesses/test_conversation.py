"""From a task's input to messages, and to the steps that a record shows."""

from __future__ import annotations

from typing import Any

import pytest

from agentcompass.contracts import MediaItem, Message, Observation, StageFailure, TaskInput, ToolCall
from agentcompass.plugins.harnesses.conversation import conversation_of, steps_of


class Files:
    """The one method of an environment session that is used here, over a dictionary."""

    def __init__(self, **files: bytes) -> None:
        self._files = files

    async def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        if path not in self._files:
            raise FileNotFoundError(path)
        if max_bytes is not None and len(self._files[path]) > max_bytes:
            raise ValueError(path)
        return self._files[path]


def files(**content: bytes) -> Any:
    return Files(**content)


async def test_prompt_and_system_prompt_become_messages() -> None:
    messages = await conversation_of(TaskInput(system_prompt="S", prompt="P"), files(), "other")
    assert messages == [Message(role="system", content="S"), Message(role="user", content="P")]


async def test_the_harness_system_prompt_fills_the_gap() -> None:
    task = TaskInput(messages=[Message(role="user", content="P")])
    assert await conversation_of(task, files(), "S") == [
        Message(role="system", content="S"),
        Message(role="user", content="P"),
    ]
    assert len(task.messages) == 1


async def test_images_are_put_before_the_prompt() -> None:
    media = [
        MediaItem(type="image", url="http://x/i.png", label="Figure 1"),
        MediaItem(type="image", data="AAAA", mime_type="image/gif"),
        MediaItem(type="image", path="pixel"),
    ]
    messages = await conversation_of(TaskInput(prompt="P", media=media), files(pixel=b"\x00\x01"))
    assert messages[0].content == [
        {"type": "text", "text": "Figure 1"},
        {"type": "image_url", "image_url": {"url": "http://x/i.png"}},
        {"type": "image_url", "image_url": {"url": "data:image/gif;base64,AAAA"}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAE="}},
        {"type": "text", "text": "P"},
    ]


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (TaskInput(), "neither messages nor a prompt"),
        (TaskInput(system_prompt="S"), "neither messages nor a prompt"),
        (TaskInput(prompt="P", media=[MediaItem(type="audio", url="http://x")]), "audio input"),
        (TaskInput(prompt="P", media=[MediaItem(type="image")]), "without url, data or path"),
        (TaskInput(prompt="P", media=[MediaItem(type="image", path="gone")]), "not in the environment"),
        (TaskInput(prompt="P", media=[MediaItem(type="image", path="big")]), "larger than 20 MiB"),
        (
            TaskInput(
                messages=[Message(role="user", content="P")], media=[MediaItem(type="image", url="http://x")]
            ),
            "messages and media",
        ),
    ],
)
async def test_input_that_cannot_be_sent_is_refused(task: TaskInput, reason: str) -> None:
    with pytest.raises(StageFailure, match=reason) as caught:
        await conversation_of(task, files(big=bytes(20 * 1024 * 1024 + 1)))
    assert caught.value.issue.code == "task_input_invalid"


def test_tool_results_belong_to_the_step_that_called() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    steps = steps_of(
        [
            Message(role="user", content="go"),
            Message(role="assistant", content="calling", tool_calls=[call]),
            Message(role="tool", content="done", tool_call_id="c1"),
            Message(role="user", content="and?"),
        ]
    )
    assert [(step.step_id, step.source) for step in steps] == [(1, "user"), (2, "agent"), (3, "user")]
    assert steps[1].tool_calls == [ToolCall(id="c1", name="f", arguments={"a": 1})]
    assert steps[1].observations == [Observation(tool_call_id="c1", content="done")]


def test_embedded_files_are_shown_by_their_size() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    steps = steps_of([Message(role="user", content=[part])])
    assert steps[0].message == [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,… (4 characters)"}}
    ]
