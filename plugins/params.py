"""Turning pydantic's validation errors into one line that says what to change."""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import BaseModel, ValidationError

_LONGEST = 700
"""Characters of one problem: a message may quote what was given."""


def describe_validation_error(error: ValidationError, model: type[BaseModel], place: str) -> str:
    """The first two problems, with the nearest valid name for an unknown key.

    ``place`` says where the values came from, as in ``"parameters of benchmark 'qa'"``.
    """
    problems = [_describe(item, model) for item in error.errors(include_url=False, include_context=False)]
    shown = "; ".join(
        problem if len(problem) <= _LONGEST else f"{problem[:_LONGEST]}…" for problem in problems[:2]
    )
    more = f" (and {len(problems) - 2} more)" if len(problems) > 2 else ""
    return f"{place}: {shown}{more}"


def _describe(item: Any, model: type[BaseModel]) -> str:
    path = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return f"unknown key {path!r}{_nearest(item['loc'], model)}"
    if item["type"] == "missing":
        return f"{path!r} is required"
    message = item["msg"].removeprefix("Value error, ")
    value = item["input"]
    plain = isinstance(value, str | int | float | bool) and len(repr(value)) <= 60
    shown = f", got {value!r}" if plain and repr(value) not in message else ""
    return f"{path!r}: {message}{shown}" if path else f"{message}{shown}"


def _nearest(location: tuple[int | str, ...], model: type[BaseModel]) -> str:
    """A hint with the valid keys beside the unknown one, found by walking down the model."""
    current: type[BaseModel] | None = model
    for part in location[:-1]:
        field = current.model_fields.get(str(part)) if current else None
        annotation = field.annotation if field else None
        current = annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None
    if current is None:
        return ""
    known = list(current.model_fields)
    near = difflib.get_close_matches(str(location[-1]), known, n=2, cutoff=0.5)
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    return f"; known keys: {', '.join(sorted(known))}" if known else "; it takes no keys"
