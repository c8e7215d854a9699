"""A copy of a whole run directory, under another name."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from ...contracts.errors import RunDirectoryError
from .files import TEMPORARY_PREFIX
from .linking import link_tree
from .reservation import STATE_DIR

_LINKED = "artifacts"
"""Nobody writes into these, and they may be large."""
_NOT_OF_A_COPY = {"locks", "environments"}
"""Locks, and the environments that are open: they belong to the original."""


def copy_run(source: Path, target: Path) -> None:
    """Make ``target`` a copy of ``source``, in one step; artifacts are hard-linked where they can be.

    Raises RunDirectoryError, with nothing left behind, when ``target`` exists or cannot be written.
    """
    if os.path.lexists(target):
        raise RunDirectoryError(f"{target} exists already; choose another directory")
    if target.resolve().is_relative_to(source.resolve()):
        raise RunDirectoryError(f"{target} lies inside the run directory {source}; choose another directory")
    building = target.parent / f"{TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(6)}"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, building, symlinks=True, ignore=_left_out(source))
        if (source / _LINKED).is_dir():
            link_tree(source / _LINKED, building / _LINKED)
        os.rename(building, target)
    except (OSError, shutil.Error) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise RunDirectoryError(f"{target} exists already; choose another directory") from error
        reason = getattr(error, "strerror", None) or str(error)
        raise RunDirectoryError(f"the copy {target} cannot be written: {reason}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _left_out(source: Path) -> Callable[[str, list[str]], set[str]]:
    """Names that are not copied: what is linked instead, locks, and files that are being written."""

    def ignore(directory: str, names: list[str]) -> set[str]:
        special = {str(source): {_LINKED}, str(source / STATE_DIR): _NOT_OF_A_COPY}.get(directory, set())
        return {name for name in names if name in special or name.startswith(TEMPORARY_PREFIX)}

    return ignore
