"""A command as it is given to the operating system."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from ....contracts.environment import Command
from ....contracts.errors import UsageError
from .directory import EnvironmentDirectory
from .membership import Scope
from .process_space import ProcessSpace

SHELL = "/bin/sh"


@dataclass(frozen=True)
class CommandLine:
    """Arguments, folder and the complete environment variables of a command."""

    arguments: list[str]
    folder: Path
    variables: dict[str, str]

    @classmethod
    def build(
        cls,
        directory: EnvironmentDirectory,
        scope: Scope,
        command: Command,
        *,
        cwd: str | None,
        variables: dict[str, str],
        private: bool = False,
    ) -> CommandLine:
        """A string goes to ``sh -c``. Nothing of the worker's environment but PATH is passed on.

        ``private``: it runs in the environment's own process table, whose making blocks.
        Raises ``ValueError`` for an empty command, a NUL character, or a malformed variable name;
        ``NoProcessSpaceError``.
        """
        arguments = [SHELL, "-c", command] if isinstance(command, str) else list(command)
        if not command:
            raise ValueError("the command is empty")
        own = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(directory.home),
            "TMPDIR": str(directory.tmp),
            "LANG": "C.UTF-8",
        }
        merged = own | variables | scope.markers
        for name, value in merged.items():
            if not name or "=" in name or "\0" in name or "\0" in value:
                # The value is left out: it may be a secret.
                raise ValueError(f"environment variable {name!r} cannot be passed to a command")
        if any("\0" in argument for argument in arguments):
            raise ValueError("a command cannot hold a NUL character")
        folder = directory.resolve(cwd or ".")
        if private:
            arguments = ProcessSpace(directory).entered(arguments, str(folder))
        return cls(arguments, folder, merged)


def require_own_user(user: str | None) -> None:
    """Raise ``UsageError`` when a command is to run as anybody but the worker's user."""
    if user is None or user == str(os.geteuid()):
        return
    try:
        wanted = pwd.getpwnam(user).pw_uid
    except KeyError:
        wanted = None
    if wanted != os.geteuid():
        raise UsageError(
            f"host_process runs every command as the worker's own user (uid {os.geteuid()}), not as {user!r}; "
            "use an environment that isolates, such as docker"
        )
