"""Values of flags that hold more than one word."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from ...contracts.errors import ConfigurationError
from ..config.documents import parse_json_value


def json_object(text: str | None, flag: str) -> dict[str, JsonValue] | None:
    """A JSON object. Raises ``ConfigurationError`` with the position of a mistake."""
    if text is None:
        return None
    value = parse_json_value(text, flag)
    if not isinstance(value, dict):
        raise ConfigurationError(f'{flag}: must be a JSON object, as in {{"name": 1}}')
    return value


def json_list(text: str | None, flag: str) -> list[str] | None:
    """A JSON array of texts; ``null`` is an empty one. Raises ``ConfigurationError``."""
    if text is None:
        return None
    value = parse_json_value(text, flag)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigurationError(f'{flag}: must be a JSON array of texts, as in ["timed out"]')
    return [item for item in value if isinstance(item, str)]


def protocol(text: str | None, flag: str) -> str | list[str] | None:
    """A name, or a JSON array of names."""
    return json_list(text, flag) if text and text.lstrip().startswith("[") else text


def number_by_name(pairs: Sequence[str] | None, flag: str, *, whole: bool = False) -> dict[str, float] | None:
    """``["docker=4"]`` as ``{"docker": 4}``. Raises ``ConfigurationError``."""
    if not pairs:
        return None
    result: dict[str, float] = {}
    for pair in pairs:
        name, _, number = pair.partition("=")
        try:
            value = int(number) if whole else float(number)
        except ValueError:
            kind = "whole number" if whole else "number"
            raise ConfigurationError(
                f"{flag}: {pair!r} is not PROVIDER={kind.upper()}; write for example docker=4"
            ) from None
        if not name or name in result:
            problem = "is given twice" if name else "has no name before '='"
            raise ConfigurationError(f"{flag}: {pair!r} {problem}")
        result[name] = value
    return result
