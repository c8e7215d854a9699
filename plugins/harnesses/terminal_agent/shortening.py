"""Keeping a conversation within the context window, by fixed rules.

The conversation that is sent is a function of what happened and of one :class:`~.state.Shortening`:
the same on every worker, and a prefix that changes only when the window was full.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from ....contracts.result import ToolCall
from ....contracts.task import Message
from .state import Shortening, Turn
from .truncation import head_and_tail

TARGET = 0.6
"""Part of the window that a shortened conversation may fill, so that it need not be shortened soon again."""
_SUMMARY_CHARACTERS = 4000


@dataclass(frozen=True)
class Rung:
    """How turns are shortened that are older than the last ``keep``."""

    keep: int
    text_bytes: int = 0
    """Of tool outputs and of texts in arguments."""
    drop: bool = False
    """Leave the turns out, but for a list of what was done."""


LADDER = (
    Rung(keep=8, text_bytes=2048),
    Rung(keep=4, text_bytes=256),
    Rung(keep=4, drop=True),
    Rung(keep=1, drop=True),
)
"""From mild to strong; a conversation never climbs down."""


def conversation(
    start: Sequence[Message], turns: Sequence[Turn], shortening: Shortening | None
) -> list[Message]:
    """The messages to send: the task, then the turns, old ones shortened."""
    if shortening is None:
        return [*start, *(message for turn in turns for message in turn.messages())]
    rung, before = LADDER[shortening.rung], shortening.before
    if rung.drop:
        old = [_list_of(turns[:before])] if before else []
    else:
        old = [_cut(message, rung.text_bytes) for turn in turns[:before] for message in turn.messages()]
    return [*start, *old, *(message for turn in turns[before:] for message in turn.messages())]


def next_shortening(
    turns: Sequence[Turn], current: Shortening | None, *, stronger: bool = False
) -> list[Shortening]:
    """What may follow ``current``, from mild to strong; ``stronger`` leaves its own rung out.

    Only what shortens something more than now is listed.
    """
    first = 0 if current is None else current.rung + stronger
    candidates = [
        Shortening(rung=number, before=max(len(turns) - rung.keep, current.before if current else 0))
        for number, rung in enumerate(LADDER)
        if number >= first
    ]
    return [item for item in candidates if item.before > 0 and item != current]


def size_of(messages: Sequence[Message]) -> int:
    """Characters of a conversation, embedded images left out."""
    return sum(_length(message) for message in messages)


def _length(message: Message) -> int:
    parts = message.content if isinstance(message.content, list) else []
    text = message.content if isinstance(message.content, str) else ""
    texts = sum(len(str(part.get("text", ""))) for part in parts)
    return len(text) + texts + len(json.dumps(message.tool_calls or []))


def _cut(message: Message, limit: int) -> Message:
    update: dict[str, object] = {}
    if message.role == "tool" and isinstance(message.content, str):
        update["content"] = head_and_tail(message.content.encode("utf-8", "replace"), limit)
    if message.tool_calls:
        update["tool_calls"] = [
            {**call, "arguments": _cut_value(call.get("arguments"), limit)} for call in message.tool_calls
        ]
    return message.model_copy(update=update)


def _cut_value(value: JsonValue, limit: int) -> JsonValue:
    if isinstance(value, str):
        return head_and_tail(value.encode("utf-8", "replace"), limit)
    if isinstance(value, dict):
        return {key: _cut_value(item, limit) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut_value(item, limit) for item in value]
    return value


def _list_of(turns: Sequence[Turn]) -> Message:
    lines = [
        f"{number}. {_headline(call)}"
        for number, turn in enumerate(turns, start=1)
        for call in turn.response.tool_calls
    ]
    text = head_and_tail("\n".join(lines).encode("utf-8", "replace"), _SUMMARY_CHARACTERS)
    head = f"[The first {len(turns)} turns were left out, because the conversation was too long. Your calls in them:]"
    return Message(role="user", content=f"{head}\n{text}")


def _headline(call: ToolCall) -> str:
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    first = next((value for value in arguments.values() if isinstance(value, str)), "")
    line = " ".join(first.split())
    return f"{call.name} {line if len(line) <= 120 else line[:119] + '…'}"
