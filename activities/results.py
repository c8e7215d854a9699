"""What hooks return, checked where it comes in: extension code may return anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pydantic_core import PydanticSerializationError

from ..contracts.issues import Issue
from ..contracts.result import DECLARED_ARTIFACTS, REUSE_HISTORY, RunResult
from .classification import says_more, tidy
from .store.files import encode

T = TypeVar("T")

_OURS = (DECLARED_ARTIFACTS, REUSE_HISTORY)
"""What the runtime itself has written into ``artifacts`` before a hook sees them."""


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


def with_ours(result: RunResult, earlier: RunResult) -> RunResult:
    """``result`` with what the runtime wrote into the artifacts of ``earlier``.

    A hook that made artifacts of its own would lose the manifest, and with it the files that are to be judged.
    """
    ours = {name: earlier.artifacts[name] for name in _OURS if name in earlier.artifacts}
    return result.model_copy(update={"artifacts": {**result.artifacts, **ours}}) if ours else result


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
