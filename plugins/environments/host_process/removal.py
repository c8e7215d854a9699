"""Removing a tree that something hostile may have left."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any


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
        shutil.rmtree(path, onerror=_make_writable_and_retry)
    except RecursionError:
        # Nested deeper than Python recurses; rm walks without recursion.
        subprocess.run(["rm", "-rf", "--", str(path)], check=True, capture_output=True)


def _make_writable_and_retry(function: Callable[..., Any], name: str, error: Any) -> None:
    reason = error[1]
    if isinstance(reason, FileNotFoundError):
        return  # another removal of the same environment was faster
    if not isinstance(reason, PermissionError):
        raise reason
    # Only folders are made writable: a file may be a hard link to one outside.
    _open_up(os.path.dirname(name))
    _open_up(name)
    if function in (os.unlink, os.rmdir):
        function(name)
    elif os.path.isdir(name) and not os.path.islink(name):
        shutil.rmtree(name)
    else:
        os.unlink(name)


def _open_up(name: str) -> None:
    if stat.S_ISDIR(os.lstat(name).st_mode):
        os.chmod(name, stat.S_IRWXU)
