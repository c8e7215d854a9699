"""What signals bring along. They come from people and tools, too, and must never suspend a workflow.

A handler that raises anything but a ``FailureError`` fails the workflow task, again and again; a
``FailureError`` fails the workflow. So handlers take whatever comes, and these functions make sense of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from pydantic import BaseModel, ValidationError

ModelT = TypeVar("ModelT", bound=BaseModel)


def text_of(arguments: Sequence[object], position: int = 0, default: str = "") -> str:
    """The text at a position; ``default`` where there is none, or something else, or nothing in it."""
    found = arguments[position] if len(arguments) > position else None
    return found if isinstance(found, str) and found else default


def models_of(model: type[ModelT], arguments: Sequence[object]) -> list[ModelT] | None:
    """The first argument as a list of models; what is none is left out. ``None`` when it is no list."""
    first = arguments[0] if arguments else None
    if not isinstance(first, list):
        return None
    found = [model_of(model, [item]) for item in first]
    return [item for item in found if item is not None]


def model_of(model: type[ModelT], arguments: Sequence[object]) -> ModelT | None:
    """The first argument as a model; ``None`` when it is none."""
    try:
        return model.model_validate(arguments[0] if arguments else None)
    except ValidationError as error:
        workflow.logger.warning("a signal is dropped: %s", error)
        return None
