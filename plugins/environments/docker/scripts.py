"""The shell scripts that look after commands inside a sandbox.

They travel in a variable with each call, so that the sandbox holds no copy that an agent could
change, and a worker of another version finds nothing of the wrong one.
"""

from __future__ import annotations

import functools

from ..shared.scripts import SHARED, lines_of, shell_text, supervision

HOME = "/.agentcompass"
"""Where records and output of commands are, inside the sandbox."""
__all__ = ["EXECUTIONS", "HOME", "PROCESSES", "first_process", "invocation", "shell_text", "text_of"]

EXECUTIONS, PROCESSES = f"{HOME}/x", f"{HOME}/p"


@functools.cache
def text_of(name: str) -> str:
    """A script with the functions that it builds on, without its comments."""
    if name in ("run", "end"):
        return supervision(name)
    own = lines_of(__package__, name)
    return own if name == "init" else lines_of(SHARED, "common") + own


def invocation(name: str, *arguments: str) -> list[str]:
    """The argument list that runs a script given in the variable ``AC_RUN``."""
    return ["sh", "-c", 'eval "$AC_RUN"', name, *arguments]


def first_process(seconds: int, workdir: str, owner: str) -> list[str]:
    """The argument list of a sandbox's first process, which ends after ``seconds`` unless renewed; 0: never."""
    return ["sh", "-c", 'eval "$1"', "init", text_of("init"), str(seconds), workdir, owner]
