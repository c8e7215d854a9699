"""Making a new sandbox ready for sessions, and a known one ready for the next session."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ..shared.variables import checked_variables
from .shell import LONGEST_VARIABLE, RemoteShellError, Shell


@dataclass(frozen=True)
class Prepared:
    """What a session has to know of a sandbox."""

    workdir: str
    variables: dict[str, str]
    """Of the environment itself; may hold secrets."""


def prepared(shell: Shell, workdir: str, variables: dict[str, str] | None) -> Prepared:
    """Make a sandbox ready. Blocks.

    ``variables`` are kept inside, for sessions that are taken up elsewhere: neither the handle nor the
    provider's listing may hold them. ``None`` stands for those that were kept. Raises ``ValueError`` for more
    than fit.
    """
    data = json.dumps(checked_variables(variables)).encode("ascii") if variables is not None else b""
    if len(data) * 4 // 3 > LONGEST_VARIABLE:
        raise ValueError("the environment's variables are too large together")
    answer = shell.ask("prepare", workdir, *(["keep"] if data else []), data=data)
    found, _, kept = answer.rest.partition(b"\n")
    return Prepared(found.decode("utf-8", "surrogateescape"), _parsed(kept))


def _parsed(kept: bytes) -> dict[str, str]:
    try:
        variables = json.loads(kept) if kept else {}
    except ValueError:
        variables = None
    if not isinstance(variables, dict) or not all(isinstance(value, str) for value in variables.values()):
        # Within the agent's reach; what it says is not worth showing.
        raise RemoteShellError("the variables that were kept in the sandbox are spoiled")
    return variables
