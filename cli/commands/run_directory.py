"""The run directory that a command looks at: ``RUN_DIR``, or ``--input RUN_DIR``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

InputDir = Annotated[
    Path | None, typer.Option("--input", metavar="RUN_DIR", help="The same as the argument RUN_DIR.")
]


def run_directory(argument: Path | None, option: Path | None) -> Path:
    """The one that was given. Raises ``UsageError`` for none, two, or what is no run directory."""
    from ...contracts.errors import UsageError

    found = given_directory(argument, option)
    if not (found / "run_info.json").exists():
        raise UsageError(f"{found} is not a run directory, which holds run_info.json")
    return found


def given_directory(argument: Path | None, option: Path | None) -> Path:
    """A run directory or a folder of several. Raises ``UsageError`` for none, two, or what is no directory."""
    from ...contracts.errors import UsageError

    if argument is not None and option is not None:
        raise UsageError("the run directory is given twice: as RUN_DIR and with --input")
    found = argument or option
    if found is None:
        raise UsageError("give a run directory, which holds run_info.json")
    if not found.is_dir():
        raise UsageError(f"{found} is not a directory; give a run directory, which holds run_info.json")
    return found
