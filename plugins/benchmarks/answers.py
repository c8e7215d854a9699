"""A final answer as text."""

from __future__ import annotations

import json

from pydantic import JsonValue

_EXACT_FLOATS = 2**53


def answer_text(answer: JsonValue) -> str:
    """``""`` for no answer, text as it is, whole numbers without a fraction, anything else as JSON."""
    if answer is None:
        return ""
    if isinstance(answer, str):
        return answer
    if isinstance(answer, float) and answer.is_integer() and abs(answer) < _EXACT_FLOATS:
        return str(int(answer))
    return json.dumps(answer, ensure_ascii=False)
