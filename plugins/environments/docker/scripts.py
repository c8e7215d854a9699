"""The shell scripts that look after commands inside a sandbox.

They travel in a variable with each call, so that the sandbox holds no copy that an agent could
change, and a worker of another version finds nothing of the wrong one.
"""

from __future__ import annotations

import functools
import shlex
from importlib.resources import files

HOME = "/.agentcompass"
"""Where records and output of commands are, inside the sandbox."""
EXECUTIONS, PROCESSES = f"{HOME}/x", f"{HOME}/p"


@functools.cache
def text_of(name: str) -> str:
    """A script with the functions that it builds on, without its comments."""
    return _lines_of(name) if name == "init" else _lines_of("common") + _lines_of(name)


def _lines_of(name: str) -> str:
    text = (files(__package__) / f"{name}.sh").read_text(encoding="utf-8")
    return "".join(
        line for line in text.splitlines(True) if line.strip() and not line.lstrip().startswith("#")
    )


def invocation(name: str, *arguments: str) -> list[str]:
    """The argument list that runs a script given in the variable ``AC_RUN``."""
    return ["sh", "-c", 'eval "$AC_RUN"', name, *arguments]


def first_process(workdir: str, owner: str) -> list[str]:
    """The argument list of a sandbox's first process."""
    return ["sh", "-c", 'eval "$1"', "init", text_of("init"), workdir, owner]


def shell_text(command: str | list[str]) -> str:
    """A command as text for a shell that shall become that command."""
    return f"exec sh -c {shlex.quote(command)}" if isinstance(command, str) else f"exec {shlex.join(command)}"
