"""Groups of flags that several commands share: a dataclass in place of many parameters."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, get_type_hints


def takes_flags(
    group: type[Any], optional: Collection[str] = ()
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command the fields of dataclass ``group`` as flags; it gets them as its first argument.

    Fields named in ``optional`` may be left out although the dataclass demands them; they are then ``""``.

    >>> @app.command()
    >>> @takes_flags(RunFlags)
    >>> def run(flags: RunFlags, dry_run: bool = False) -> int: ...
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        hints = get_type_hints(group, include_extras=True)
        names = [item.name for item in dataclasses.fields(group)]
        own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

        @functools.wraps(command)
        def wrapper(**values: Any) -> int:
            flags = group(**{name: values.pop(name) for name in names})
            return command(flags, **values)

        shared = [
            _parameter(item, hints[item.name], item.name in optional) for item in dataclasses.fields(group)
        ]
        parameters = [*shared, *(item.replace(kind=inspect.Parameter.KEYWORD_ONLY) for item in own)]
        # Typer reads both; functools.wraps has left those of the inner function.
        wrapper.__annotations__ = {item.name: item.annotation for item in parameters}
        wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        del wrapper.__wrapped__
        return wrapper

    return decorate


def _parameter(item: dataclasses.Field[Any], annotation: Any, optional: bool) -> inspect.Parameter:
    required = item.default is dataclasses.MISSING
    default = item.default if not required else "" if optional else inspect.Parameter.empty
    return inspect.Parameter(
        item.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
