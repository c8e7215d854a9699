"""From a task's input to the messages of a model call, and from these to trajectory steps."""

from __future__ import annotations

import base64
import mimetypes
import re
from collections.abc import Sequence

from pydantic import JsonValue

from ...contracts.environment import EnvironmentSession
from ...contracts.errors import StageFailure
from ...contracts.issues import IssueCode, IssuePhase
from ...contracts.result import Observation, TrajectoryStep
from ...contracts.task import MediaItem, Message, TaskInput
from ..models.protocol import tool_call_of

MAX_IMAGE_BYTES = 20 * 1024 * 1024

_DATA_URL = re.compile(r"^data:[^,]{0,100},")


async def conversation_of(
    task: TaskInput, env: EnvironmentSession, system_prompt: str | None = None
) -> list[Message]:
    """The task's messages, else its system prompt and its prompt with its images.

    ``system_prompt`` is used when the task brings none. Raises ``StageFailure`` for a task without
    any input and for media that a chat model cannot be given.
    """
    messages = list(task.messages)
    if not messages:
        if task.system_prompt:
            messages.append(Message(role="system", content=task.system_prompt))
        if task.prompt or task.media:
            messages.append(Message(role="user", content=await _user_content(task, env)))
    elif task.media:
        raise _invalid("has messages and media; put the media into the messages")
    if all(message.role == "system" for message in messages):
        raise _invalid("has neither messages nor a prompt")
    if system_prompt and not any(message.role == "system" for message in messages):
        messages.insert(0, Message(role="system", content=system_prompt))
    return messages


async def _user_content(task: TaskInput, env: EnvironmentSession) -> str | list[dict[str, JsonValue]]:
    if not task.media:
        return task.prompt
    parts: list[dict[str, JsonValue]] = []
    for item in task.media:
        if item.label:
            parts.append({"type": "text", "text": item.label})
        parts.append({"type": "image_url", "image_url": {"url": await _image_url(item, env)}})
    return [*parts, {"type": "text", "text": task.prompt}] if task.prompt else parts


async def _image_url(item: MediaItem, env: EnvironmentSession) -> str:
    if item.type != "image":
        raise _invalid(f"has {item.type} input, which a chat model cannot be given here")
    if item.url:
        return item.url
    if item.data:
        return item.data if item.data.startswith("data:") else f"data:{_mime_type(item)};base64,{item.data}"
    if not item.path:
        raise _invalid("has an image without url, data or path")
    try:
        raw = await env.read(item.path, max_bytes=MAX_IMAGE_BYTES)
    except FileNotFoundError:
        raise _invalid(f"names the image {item.path!r}, which is not in the environment") from None
    except ValueError:
        raise _invalid(f"names the image {item.path!r}, which is larger than 20 MiB") from None
    return f"data:{_mime_type(item)};base64,{base64.b64encode(raw).decode('ascii')}"


def _mime_type(item: MediaItem) -> str:
    return item.mime_type or mimetypes.guess_type(item.path or "")[0] or "image/png"


def _invalid(what: str) -> StageFailure:
    return StageFailure.fatal(IssuePhase.SETUP, IssueCode.TASK_INPUT_INVALID, f"the task {what}")


def steps_of(messages: Sequence[Message]) -> list[TrajectoryStep]:
    """One step per message; what a tool returned belongs to the step of the agent that called it."""
    steps: list[TrajectoryStep] = []
    for message in messages:
        shown = _shown(message)
        if message.role == "tool":
            seen = Observation(tool_call_id=message.tool_call_id, content=shown)
            if steps and steps[-1].source == "agent":
                steps[-1].observations.append(seen)
            else:
                steps.append(TrajectoryStep(step_id=len(steps) + 1, source="user", observations=[seen]))
            continue
        source = "agent" if message.role == "assistant" else message.role
        calls = [tool_call_of(call) for call in message.tool_calls or []]
        steps.append(TrajectoryStep(step_id=len(steps) + 1, source=source, message=shown, tool_calls=calls))
    return steps


def _shown(message: Message) -> JsonValue:
    """The content with embedded files cut down to their size: a record is read by people."""
    if isinstance(message.content, str):
        return message.content
    return [_without_data(part) for part in message.content]


def _without_data(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _without_data(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_data(item) for item in value]
    if isinstance(value, str) and (match := _DATA_URL.match(value)):
        return f"{match[0]}… ({len(value) - match.end()} characters)"
    return value
