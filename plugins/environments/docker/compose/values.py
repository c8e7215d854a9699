"""The many ways in which compose files write lists, maps, durations and sizes."""

from __future__ import annotations

import re
import shlex
from typing import Any

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}


def words(value: Any) -> Any:
    """A command: a list as it is, a text split like a shell does."""
    if isinstance(value, str):
        return shlex.split(value)
    return [_text(item) for item in value] if isinstance(value, list) else value


def texts(value: Any) -> Any:
    """A list, or a single value."""
    if isinstance(value, str):
        return [value]
    return [_text(item) for item in value] if isinstance(value, list) else value


def variables(value: Any) -> Any:
    """A map, or a list of ``NAME=value``. Raises ``ValueError`` for a variable without a value."""
    if isinstance(value, list):
        pairs = [str(item).partition("=") for item in value]
        found: dict[str, Any] = {name: text if sign else None for name, sign, text in pairs}
    elif isinstance(value, dict):
        found = value
    else:
        return value
    for name, item in found.items():
        if not _VARIABLE.fullmatch(str(name)):
            raise ValueError(f"{name!r} is not the name of a variable")
        if item is None:
            raise ValueError(
                f"{name} without a value would be a variable of the worker, which a task may not read"
            )
    return {name: _text(item) for name, item in found.items()}


def seconds(value: Any) -> Any:
    """``1m30s`` and the like. Raises ``ValueError``."""
    if not isinstance(value, str):
        return value
    parts = _DURATION.findall(value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError(f"{value!r} is not a duration such as '1m30s'")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def size(value: Any) -> Any:
    """Bytes, from ``512m`` and the like; ``None`` for an empty text. Raises ``ValueError``."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    found = _SIZE.fullmatch(value.strip())
    if found is None:
        raise ValueError(f"{value!r} is not a size such as '512m'")
    return int(float(found[1]) * _UNITS[found[2].lower()])


def number(value: Any) -> Any:
    """A number that may be written as a text; ``None`` for an empty one."""
    return None if isinstance(value, str) and not value.strip() else value


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value
