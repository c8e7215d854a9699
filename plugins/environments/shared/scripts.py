"""The shell scripts that look after commands in a sandbox, as text that travels with each call.

A sandbox so holds no copy that an agent could change, and a worker of another version finds nothing
of the wrong one.
"""

from __future__ import annotations

import functools
import shlex
from importlib.resources import files

SHARED = __package__
"""Where ``common.sh``, ``run.sh`` and ``end.sh`` are."""


@functools.cache
def lines_of(package: str, name: str) -> str:
    """A script of a package without its comments."""
    text = (files(package) / f"{name}.sh").read_text(encoding="utf-8")
    return "".join(
        line for line in text.splitlines(True) if line.strip() and not line.lstrip().startswith("#")
    )


def supervision(name: str) -> str:
    """``run`` or ``end`` with the functions that it builds on."""
    return lines_of(SHARED, "common") + lines_of(SHARED, name)


def shell_text(command: str | list[str]) -> str:
    """A command as text for a shell that shall become that command."""
    return f"exec sh -c {shlex.quote(command)}" if isinstance(command, str) else f"exec {shlex.join(command)}"
