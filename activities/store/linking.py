"""Hard links between run directories: one copy on disk, two directories that stand alone.

Linking is safe because nobody writes into a file of a run directory: files are replaced by a rename.
"""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

from .files import TEMPORARY_PREFIX, read_bytes, write_atomic


def link_file(source: Path, target: Path) -> None:
    """Make ``target``, which must not exist, a hard link to ``source``; a durable copy where that cannot be.

    Raises ``FileNotFoundError`` when ``source`` is gone.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target, follow_symlinks=False)
    except FileNotFoundError:
        raise
    except OSError:  # another device, or a file system or an owner that does not allow it
        data = read_bytes(source)
        if data is None:
            raise FileNotFoundError(source) from None
        write_atomic(target, data, durable=True)


def link_tree(source: Path, target: Path) -> None:
    """``source`` again at ``target``, in one step, its files linked where they can be.

    Does nothing when ``target`` is there: then an earlier try has made it.
    """
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    building = target.parent / f"{TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(6)}"
    try:
        shutil.copytree(source, building, symlinks=True, copy_function=_link_or_copy)
        try:
            os.rename(building, target)
        except OSError:
            if not target.exists():
                raise  # otherwise somebody was faster
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _link_or_copy(source: str, destination: str) -> None:
    try:
        os.link(source, destination, follow_symlinks=False)
    except OSError:  # another device, or a file system or an owner that does not allow it
        shutil.copy2(source, destination, follow_symlinks=False)
