"""What hooks return, checked where it comes in: extension code may return anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic_core import PydanticSerializationError

from ..contracts.issues import Issue
from ..contracts.result import RunResult
from .classification import says_more, tidy
from .store.files import encode

T = TypeVar("T")


def of_type(kind: type[T], value: object, hook: str) -> T:
    """What a hook returned, or a ``TypeError`` that names the hook."""
    if isinstance(value, kind):
        return value
    raise TypeError(f"{hook} returned {type(value).__name__} instead of {kind.__name__}")


def _json_of(result: RunResult) -> bytes:
    try:
        return result.model_dump_json(warnings=False).encode()
    except PydanticSerializationError:
        return encode(result)  # a lone surrogate is replaced; what no JSON can hold raises TypeError


def _nowhere(text: str) -> None:
    del text


def checked_result(value: object, hook: str, details: Callable[[str], None] = _nowhere) -> RunResult:
    """A result that can be stored and read again, its issues fit to be shown, each of them once.

    ``details`` gets the messages of which an issue shows one line only.
    ``model_copy(update=…)`` does not validate: what it brought in is brought into shape here. Raises
    ``TypeError`` or ``ValueError`` for what cannot be.
    """
    result = of_type(RunResult, value, hook)
    try:
        result.model_dump_json(warnings="error")
    except PydanticSerializationError:
        result = RunResult.model_validate_json(_json_of(result))
    if not result.issues:
        return result
    issues: list[Issue] = []
    for original in result.issues:
        issue = tidy(original)
        if issue not in issues:
            issues.append(issue)
            if says_more(original.message):
                details(f"{original.code}: {original.message}")
    return result.model_copy(update={"issues": issues})
