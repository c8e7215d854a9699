"""What all components have in common: an id, a description, a parameter model."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Generic, TypeVar, get_args

from pydantic import BaseModel

from .base import Contract

ParamsT = TypeVar("ParamsT", bound=BaseModel)
HookT = TypeVar("HookT", bound=Callable[..., Any])


@dataclass(frozen=True)
class _LocalPathMark:
    """Marks parameters that name a file on the machine where the run is configured."""


LocalPath = Annotated[str, _LocalPathMark()]
"""A parameter that names a local file or folder. A relative one is taken from where it was written
(the working directory, or the folder of the configuration file), not from a worker's directory."""


def local_path_fields(model: type[BaseModel]) -> list[str]:
    """Names of the fields of a parameter model that are declared as :data:`LocalPath`."""
    return [
        name
        for name, field in model.model_fields.items()
        if any(isinstance(item, _LocalPathMark) for item in field.metadata) or _is_marked(field.annotation)
    ]


def _is_marked(annotation: object) -> bool:
    if any(isinstance(item, _LocalPathMark) for item in getattr(annotation, "__metadata__", ())):
        return True
    return any(_is_marked(item) for item in get_args(annotation) if not isinstance(item, str))


class NoParams(Contract):
    """The parameter model of a component without parameters."""


class Component(abc.ABC, Generic[ParamsT]):
    """Base of benchmarks, harnesses, environments, recipes and analyzers.

    ``Params`` is the pydantic model of the component's parameters; unknown ones are refused
    with the nearest valid name. An instance is made per request and may be used by several
    attempts at once: keep nothing of an attempt in it.
    """

    id: ClassVar[str]
    description: ClassVar[str] = ""
    Params: ClassVar[type[BaseModel]] = NoParams
    quick_hooks: ClassVar[frozenset[str]] = frozenset()
    """Names of hooks that end within about a second and may be repeated after a crash.

    They are executed without a scheduling round trip of their own. Leave a hook out when in doubt.
    """

    def __init__(self, params: ParamsT) -> None:
        self.params = params


def blocking(hook: HookT) -> HookT:
    """Declare that an ``async`` hook blocks its thread; it then runs in a thread of its own.

    >>> class Slow(Benchmark):
    ...     @blocking
    ...     async def evaluate(self, ...): heavy_computation()
    """
    hook.__agentcompass_blocking__ = True  # type: ignore[attr-defined]
    return hook


def is_blocking(hook: Callable[..., Any]) -> bool:
    """True for a hook marked with :func:`blocking`."""
    return bool(getattr(hook, "__agentcompass_blocking__", False))
