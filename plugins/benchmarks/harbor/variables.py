"""Variables that a task sets. It is a stranger: it gets no variable of the worker that nobody allowed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from ....contracts.secrets import is_secret_reference
from .folder import InvalidTaskError

_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_REFERENCE = re.compile(r"^\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?\}$", re.DOTALL)


def task_variables(table: str, values: Mapping[str, str], allowed: Sequence[str]) -> dict[str, str]:
    """The values as AgentCompass wants them: a variable of the worker becomes a secret reference.

    Raises ``InvalidTaskError``.
    """
    return {name: _value(f"{table}.{name}", name, value, allowed) for name, value in values.items()}


def _value(place: str, name: str, value: str, allowed: Sequence[str]) -> str:
    if not _NAME.match(name):
        raise InvalidTaskError(f"{place}: {name!r} is not the name of a variable")
    reference = _REFERENCE.match(value)
    if reference is None:
        return _literal(place, value)
    wanted, default = reference[1], reference[2]
    if wanted in allowed and (default is None or wanted in os.environ):
        return f"env:{wanted}"
    if default is not None:
        return _literal(place, default)
    raise InvalidTaskError(
        f"{place} reads the worker's variable {wanted}; allow it with the benchmark parameter host_variables"
    )


def _literal(place: str, value: str) -> str:
    if is_secret_reference(value):
        # It would be resolved on the worker: any file or variable of it.
        raise InvalidTaskError(f"{place}: a value may not begin with 'env:' or 'file:/'")
    if "${" in value:
        raise InvalidTaskError(f"{place}: only a whole value may be ${{NAME}} or ${{NAME:-default}}")
    if "\0" in value:
        raise InvalidTaskError(f"{place} holds a NUL character")
    return value
