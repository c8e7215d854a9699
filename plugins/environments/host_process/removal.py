"""Removing a tree that something hostile may have left."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path


def remove_tree(path: Path) -> None:
    """Remove a file or a tree, read-only folders included; links are removed, never followed.

    Nothing happens when it is gone. Raises ``OSError`` when something cannot be removed.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        path.unlink(missing_ok=True)
        return
    try:
        path.rmdir()  # most folders are empty, and a walk costs ten times as much
        return
    except FileNotFoundError:
        return
    except OSError:
        pass  # not empty, or not to be removed: the walk tells which
    try:
        _remove(path)
    except PermissionError:
        _open_up(path)
        _remove(path)


def _remove(path: Path) -> None:
    try:
        while path.is_dir():
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                continue  # another removal is at work here, too
    except RecursionError:
        # Nested deeper than Python recurses; rm walks without recursion.
        done = subprocess.run(["rm", "-rf", "--", str(path)], check=False, capture_output=True)
        if done.returncode:
            reason = done.stderr.decode("utf-8", "replace")[-500:]
            raise OSError(f"{path} cannot be removed: {reason}") from None


def _open_up(path: Path) -> None:
    """Make every folder of a tree writable, but no file: it may be a hard link to one outside."""
    path.chmod(stat.S_IRWXU)
    for folder, names, _ in os.walk(path):
        for name in names:
            child = os.path.join(folder, name)
            if not os.path.islink(child):
                os.chmod(child, stat.S_IRWXU)
