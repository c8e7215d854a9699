"""What the agent is told: ``instruction.md``, and what was said before it, ``trajectory.json``."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from ....contracts.task import Message
from .folder import InvalidTaskError, TaskFolder

_CANARY = re.compile(r"^\s*(<!--.*canary.*-->|#.*canary.*)\s*$", re.IGNORECASE)
_NO_TOOL_NAME = re.compile(r"[^A-Za-z0-9_-]")


def instruction(folder: TaskFolder, below: str = "") -> str:
    """``instruction.md`` without canary lines at its beginning, and the blank lines after them.

    Raises ``InvalidTaskError``.
    """
    name = f"{below}instruction.md"
    if not folder.has(name):
        raise InvalidTaskError(f"{name} is missing")
    lines = folder.text(name).splitlines(keepends=True)
    count = 0
    while count < len(lines) and _CANARY.match(lines[count]):
        count += 1
    while 0 < count < len(lines) and not lines[count].strip():
        count += 1
    text = "".join(lines[count:])
    if not text.strip():
        raise InvalidTaskError(f"{name} is empty")
    return text


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore")


class _Call(_Model):
    tool_call_id: str
    function_name: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class _Seen(_Model):
    source_call_id: str | None = None
    content: str | list[dict[str, Any]] | None = None


class _Observation(_Model):
    results: list[_Seen] = Field(default_factory=list)


class _Said(_Model):
    source: Literal["system", "user", "agent"]
    message: str | list[dict[str, Any]] = ""
    tool_calls: list[_Call] | None = None
    observation: _Observation | None = None


class _Trajectory(_Model):
    """An ATIF document, as far as a conversation needs it; other programs write more."""

    steps: list[_Said] = Field(min_length=1)


def conversation(folder: TaskFolder, below: str = "") -> list[Message]:
    """``trajectory.json`` as messages, none without it. Raises ``InvalidTaskError``."""
    name = f"{below}trajectory.json"
    if not folder.has(name):
        return []
    try:
        trajectory = _Trajectory.model_validate_json(folder.text(name))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InvalidTaskError(f"{name} is no ATIF trajectory: {place}: {first['msg']}"[:300]) from None
    messages: list[Message] = []
    calls = 0
    for number, said in enumerate(trajectory.steps, start=1):
        messages += _messages(said, f"{name}: step {number}", first=number == 1, calls=calls)
        calls += len(said.tool_calls or [])
    return messages


def _messages(said: _Said, place: str, *, first: bool, calls: int) -> list[Message]:
    """One step. A system message later on is told by the user: protocols know one at the beginning only."""
    text = _text(said.message, place)
    seen = said.observation.results if said.observation else []
    if said.source != "agent":
        role: Literal["system", "user"] = "system" if said.source == "system" and first else "user"
        return [Message(role=role, content=text)] if text else []
    made = said.tool_calls or []
    ids = {call.tool_call_id: f"before_{calls + place_}" for place_, call in enumerate(made, start=1)}
    shaped: list[dict[str, JsonValue]] = [
        {
            "id": ids[call.tool_call_id],
            "name": _NO_TOOL_NAME.sub("_", call.function_name)[:64] or "tool",
            "arguments": call.arguments,
        }
        for call in made
    ]
    messages = [Message(role="assistant", content=text, tool_calls=shaped or None)] if text or shaped else []
    answers = {name: "" for name in ids}
    apart = []
    for result in seen:
        content = _text(result.content or "", place)
        if result.source_call_id in answers:
            answers[result.source_call_id] += content
        elif content:
            apart.append(Message(role="user", content=content))
    told = [Message(role="tool", content=answers[name], tool_call_id=ids[name]) for name in ids]
    return [*messages, *told, *apart]


def _text(content: str | list[dict[str, Any]], place: str) -> str:
    """Text; pictures and the like are refused, for they lie in files beside the trajectory."""
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in content]
    if not all(isinstance(text, str) for text in texts):
        raise InvalidTaskError(f"{place} has content that is not text, which is not supported")
    return "\n".join(str(text) for text in texts)
