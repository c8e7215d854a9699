"""Reading JSON that somebody else wrote: every access checked, nothing assumed.

What the answer consists of (text, tool calls) must have the right type, else
:class:`ProtocolViolation`. Facts beside it (usage, ids) are ``None`` when they are odd: a paid
answer is not thrown away because its token count is a string.
"""

from __future__ import annotations

import json
import math
from typing import Any, cast

import orjson
from pydantic import JsonValue

JsonObject = dict[str, JsonValue]
MAX_DEPTH = 64
"""Nesting beyond this is refused: records could not be written with it."""


class ProtocolViolation(ValueError):
    """The endpoint's answer is not what its protocol says; the message names the place."""


def decode_json(raw: bytes) -> JsonValue:
    """The JSON value in ``raw``; stray bytes and lone surrogates become U+FFFD, NaN becomes null."""
    text = raw.decode("utf-8", errors="replace")
    try:
        value = cast(JsonValue, orjson.loads(text))
    except orjson.JSONDecodeError:
        value = _decode_leniently(text)
    if depth_exceeds(value, MAX_DEPTH):
        raise ProtocolViolation(f"JSON nested deeper than {MAX_DEPTH} levels")
    return value


def _decode_leniently(text: str) -> JsonValue:
    try:
        value = json.loads(text, parse_constant=lambda _: None)
        return cast(JsonValue, _without_surrogates(value))
    except RecursionError:
        raise ProtocolViolation(f"JSON nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise ProtocolViolation(f"not JSON: {error}") from None


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return value


def depth_exceeds(value: JsonValue, limit: int) -> bool:
    """True when arrays and objects are nested deeper than ``limit``."""
    level: list[JsonValue] = [value]
    for _ in range(limit + 1):
        containers = [item for item in level if isinstance(item, dict | list)]
        if not containers:
            return False
        level = [
            child for item in containers for child in (item.values() if isinstance(item, dict) else item)
        ]
    return True


def object_at(value: JsonValue, where: str) -> JsonObject:
    """``value`` as an object."""
    if not isinstance(value, dict):
        raise ProtocolViolation(f"{where} is {kind_of(value)}, not an object")
    return value


def list_at(value: JsonValue, where: str) -> list[JsonValue]:
    """``value`` as an array."""
    if not isinstance(value, list):
        raise ProtocolViolation(f"{where} is {kind_of(value)}, not an array")
    return value


def text_at(value: JsonValue, where: str) -> str:
    """``value`` as a string; null is the empty one."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ProtocolViolation(f"{where} is {kind_of(value)}, not a string")
    return value


def name_at(value: JsonValue, where: str) -> str:
    """``value`` as a string that is not empty."""
    text = text_at(value, where)
    if not text:
        raise ProtocolViolation(f"{where} is missing")
    return text


def optional_text(value: JsonValue) -> str | None:
    """A non-empty string, else ``None``."""
    return value if isinstance(value, str) and value else None


def count_in(value: JsonValue, *path: str) -> int | None:
    """A count (an integer from 0) at ``path``, else ``None``."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def amount_in(value: JsonValue, key: str) -> float | None:
    """A finite number from 0 under ``key``, else ``None``."""
    found = value.get(key) if isinstance(value, dict) else None
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found) if math.isfinite(found) and found >= 0 else None


def arguments_of(value: JsonValue) -> JsonValue:
    """Arguments of a tool call: parsed when they are JSON text, else the text itself.

    Models do write broken JSON here; judging that is the caller's business.
    """
    if not isinstance(value, str):
        return value
    try:
        return decode_json(value.encode("utf-8", "replace")) if value.strip() else {}
    except ProtocolViolation:
        return value


def kind_of(value: JsonValue) -> str:
    """The JSON type of ``value``, for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, int | float):
        return "a number"
    return "an array" if isinstance(value, list) else "an object"
