"""Validation errors as one line: where the value was given, what is wrong, what to write instead."""

from __future__ import annotations

import difflib
import types
from collections.abc import Callable, Iterable
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ...contracts.secrets import is_sensitive_name
from .expand import has_variable
from .places import Path

SHOWN = 3
_MAP = "should be a map of names to values"
_PLAIN_WORDS = {
    "dict_type": _MAP,
    "model_type": _MAP,
    "model_attributes_type": _MAP,
    "list_type": "should be a list",
    "too_short": "has too few items",
    "bool_type": "should be true or false",
    "bool_parsing": "should be true or false",
    "string_type": "should be text",
    "int_type": "should be a whole number",
    "int_parsing": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "float_parsing": "should be a number",
}
"""Kinds of problems that pydantic tells in words of Python instead of YAML."""

Describe = Callable[[Path], str]
"""Names the place of a value for the user, as in ``agentcompass.yaml:3: execution.max_retries``."""


def problems_of(
    error: ValidationError, model: type[BaseModel], describe: Describe, beside: Iterable[str] = ()
) -> list[str]:
    """One line for each problem. ``beside``: keys that are valid beside the model's own."""
    items = error.errors(include_url=False, include_context=False)
    return [_problem(item, model, describe, beside) for item in items]


def file_problems(error: ValidationError, model: type[BaseModel], describe: Describe) -> list[str]:
    """The problems that can be judged by looking at one layer alone.

    What depends on a variable or on other keys is left to the validation of the whole.
    """
    kept = [
        item
        for item in error.errors(include_url=False, include_context=False)
        if not (isinstance(item["input"], str) and has_variable(item["input"]))
        and not (isinstance(item["input"], dict) and item["type"] == "value_error")
    ]
    return [_problem(item, model, describe) for item in kept]


def join_problems(problems: Iterable[str]) -> str:
    """The first few problems as one line."""
    found = list(dict.fromkeys(problems))
    more = f" (and {len(found) - SHOWN} more)" if len(found) > SHOWN else ""
    return "; ".join(found[:SHOWN]) + more


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?``, or the list of what is valid."""
    choices = list(known)
    near = difflib.get_close_matches(name, choices, n=2, cutoff=0.6)
    near = near or [choice for choice in choices if len(name) > 2 and name in choice][:2]
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    return f"; valid: {', '.join(sorted(choices))}" if choices else "; there is none"


def _problem(
    item: ErrorDetails, model: type[BaseModel], describe: Describe, beside: Iterable[str] = ()
) -> str:
    location: Path = tuple(item["loc"])
    kind = item["type"]
    if kind == "extra_forbidden":
        known = [*known_keys(model, location[:-1]), *(beside if len(location) == 1 else ())]
        return f"{describe(location)}: unknown key{nearest(str(location[-1]), known)}"
    if kind == "missing":
        return f"{describe(location[:-1])}: {str(location[-1])!r} is required"
    message = _PLAIN_WORDS.get(kind) or item["msg"].removeprefix("Value error, ").removeprefix("Input ")
    return f"{describe(location)}: {message}{_shown(item['input'], location)}"


def _shown(value: Any, location: Path) -> str:
    """The refused value, unless it is long or may be a secret."""
    secret = any(isinstance(part, str) and is_sensitive_name(part) for part in location)
    if secret or not isinstance(value, str | int | float | bool) or len(repr(value)) > 60:
        return ""
    return f" (given: {value!r})"


def known_keys(model: type[BaseModel], path: Path) -> list[str]:
    """The keys that are valid at ``path`` below ``model``; empty when any key is."""
    found = _model_at(model, path)
    return list(found.model_fields) if found is not None else []


def _model_at(annotation: Any, path: Path) -> type[BaseModel] | None:
    current = _plain(annotation)
    for part in path:
        if isinstance(current, type) and issubclass(current, BaseModel):
            info = current.model_fields.get(str(part))
            if info is None:
                return None
            current = _plain(info.annotation)
        elif get_origin(current) in (dict, list):
            current = _plain(get_args(current)[-1])
        else:
            return None
    return current if isinstance(current, type) and issubclass(current, BaseModel) else None


def _plain(annotation: Any) -> Any:
    """``X`` of ``X | None``."""
    if get_origin(annotation) in (Union, types.UnionType):
        choices = [item for item in get_args(annotation) if item is not type(None)]
        return choices[0] if len(choices) == 1 else annotation
    return annotation
