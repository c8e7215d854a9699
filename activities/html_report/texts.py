"""Texts made fit for showing: control characters visible, terminal colours gone, length bounded."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from pydantic import JsonValue

from ..redaction import REDACTOR

_COLOURS = re.compile(r"\x1b\[[0-9;:?]*[A-Za-z]")
_PICTURES = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"}
_BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
_VISIBLE = {**_PICTURES, 0x7F: "␡", **dict.fromkeys(range(0x80, 0xA0), "�"), **dict.fromkeys(_BIDI, "�")}
"""Control characters as symbols; what turns the direction of text, and so can fake it, as U+FFFD."""
MAX_NAME_CHARS = 120
_MINIMUM_PIECE = 40


def visible(text: str) -> str:
    """``text`` with nothing in it that acts instead of being seen, and that UTF-8 can hold."""
    if "\x1b" in text:
        text = _COLOURS.sub("", text)
    text = text.replace("\r\n", "\n").translate(_VISIBLE)
    return text.encode("utf-8", "replace").decode("utf-8")


def as_text(value: JsonValue) -> str:
    """A JSON value as people read it: a string as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, indent=2)


def shorten(text: str, limit: int) -> str:
    """At most ``limit`` characters: the beginning and the end, and how much is missing between them."""
    if len(text) <= limit:
        return text
    if limit <= 0:
        return ""
    if limit < _MINIMUM_PIECE:
        return text[: limit - 1] + "…"
    mark = f"\n… {len(text) - limit} characters left out …\n"
    room = max(limit - len(mark), 2)
    head = room * 2 // 3
    return f"{text[:head]}{mark}{text[len(text) - (room - head) :]}"


@dataclass
class TextBudget:
    """How many characters one task may still put into the page."""

    left: int
    cut: int = 0
    """Characters that were left out so far."""

    def take(self, value: JsonValue, share: float = 1.0) -> str:
        """``value`` as masked, visible text, in at most ``share`` of what is left."""
        text = REDACTOR.known_text(as_text(value))
        limit = max(0, int(self.left * share))
        kept = visible(shorten(text, limit))
        self.cut += max(0, len(text) - len(kept)) if len(text) > limit else 0
        self.left -= len(kept)
        return kept

    def name(self, text: str) -> str:
        """A name or another short text: whole up to :data:`MAX_NAME_CHARS` while anything is left."""
        kept = visible(shorten(REDACTOR.known_text(text), MAX_NAME_CHARS if self.left > 0 else 0))
        self.left -= len(kept)
        return kept

    def part(self, share: float) -> TextBudget:
        """A budget of its own with ``share`` of what is left, which is gone from here."""
        taken = max(0, int(self.left * share))
        self.left -= taken
        return TextBudget(taken)

    def give_back(self, part: TextBudget) -> None:
        """Take over what :meth:`part` has not used."""
        self.left += part.left
        self.cut += part.cut
