"""A text that a simple regular expression finds, for checking a data set with its own answers."""

from __future__ import annotations

import re

_INLINE_FLAGS = re.compile(r"^\(\?[a-zA-Z]+\)")
_TOKEN = re.compile(r"\\s[*+?]?|\\[bAZ]|\\[^A-Za-z0-9]|[$^]|[^\\.|?*+()\[\]{}^$]", re.DOTALL)
_GROUP = re.compile(r"(?<!\\)\((?!\?)[^()]*\)")


def literal_text(pattern: str) -> str | None:
    """The plainest text that ``pattern`` finds, or ``None`` when it is more than literal text.

    Inline flags, anchors, white space classes and escaped characters count as literal.
    """
    rest = _INLINE_FLAGS.sub("", pattern)
    text = ""
    while rest:
        token = _TOKEN.match(rest)
        if token is None or rest[token.end() :][:1] in ("*", "+", "?", "{"):
            return None
        text += _literal(token.group())
        rest = rest[token.end() :]
    return text


def frame_answer(pattern: str, answer: str) -> str | None:
    """``answer`` inside the literal text around the one group of ``pattern``.

    ``frame_answer("ANSWER: (.*)", "4")`` is ``"ANSWER: 4"``; ``None`` when there is more to it.
    """
    group = _GROUP.search(pattern)
    if group is None:
        return None
    before, after = literal_text(pattern[: group.start()]), literal_text(pattern[group.end() :])
    return None if before is None or after is None else f"{before}{answer}{after}"


def _literal(token: str) -> str:
    if token.startswith("\\s"):
        return "" if token.endswith(("*", "?")) else " "
    if token in ("^", "$") or token in ("\\b", "\\A", "\\Z"):
        return ""
    return token.removeprefix("\\")
