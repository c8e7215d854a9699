"""What all components have in common: an id, a description, a parameter model."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel

from .base import Contract

ParamsT = TypeVar("ParamsT", bound=BaseModel)
HookT = TypeVar("HookT", bound=Callable[..., Any])


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
