"""Untrusted text (task ids, messages, codes) made fit for a line, and for a Markdown table."""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Sequence

_MARKDOWN = {ord(character): f"\\{character}" for character in "\\`*[]#~"} | {ord("|"): "&#124;"}
"""A pipe is an entity, because programs disagree on how backslashes before a pipe split a table row."""

_LOOSE_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
"""An underscore that is not within a word: the only kind that is markup."""

_LINK = re.compile(r"://|(?<=www)\.|(?<!\w)@(?=\w)|@(?=[\w-]+\.\w)", re.IGNORECASE)
"""What turns plain text into a link or a mention where Markdown is shown."""


def one_line(text: str, limit: int = 200) -> str:
    """``text`` without line breaks, control and formatting characters, cut to ``limit`` characters.

    Unicode's categories C* go: they could move the cursor of a terminal, turn the direction of
    text, or not be encodable.
    """
    # A message may be large; twice the limit is enough to fill the line after whitespace is folded.
    head = text[: limit * 2 + 1]
    cleaned = "".join(
        " " if character.isspace() or unicodedata.category(character)[:1] == "C" else character
        for character in head
    )
    folded = " ".join(cleaned.split())
    return folded if len(folded) <= limit and len(head) == len(text) else folded[: limit - 1].rstrip() + "…"


def markdown(text: str, limit: int = 200) -> str:
    """``text`` as literal text in Markdown: one line, no markup, no HTML, no links, no table cell of its own."""
    escaped = html.escape(one_line(text, limit), quote=False).translate(_MARKDOWN)
    unlinked = _LINK.sub(lambda found: f"&#{ord(found[0][0])};{found[0][1:]}", escaped)
    return _LOOSE_UNDERSCORE.sub(r"\\_", unlinked)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numeric_from: int | None = None) -> list[str]:
    """A Markdown table of finished cells; columns from ``numeric_from`` on are right-aligned."""
    first = len(head) if numeric_from is None else numeric_from
    rule = ["---" if index < first else "---:" for index in range(len(head))]
    return [_row(head), _row(rule), *(_row(row) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
