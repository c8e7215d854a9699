"""Environment variables of commands."""

from __future__ import annotations


def checked_variables(variables: dict[str, str]) -> dict[str, str]:
    """The same. Raises ``ValueError`` for what no process can be given."""
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name or "\0" in value:
            # The value is left out: it may be a secret.
            raise ValueError(f"environment variable {name!r} cannot be passed to a command")
    return variables
