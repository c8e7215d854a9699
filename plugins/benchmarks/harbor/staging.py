"""Copies of a task's files as they go into a sandbox: checked, complete, and with its paths."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from .folder import Entry, InvalidTaskError, TaskFolder, read_entry

_LARGEST_REWRITTEN_BYTES = 1024 * 1024


def stage(folder: TaskFolder, part: str, target: Path, rewrite: Callable[[str], str], digest: str) -> None:
    """Copy a part of a task below ``target``. Blocks.

    Raises ``InvalidTaskError`` when it is not what it was when the tasks were loaded (``digest``):
    the result would be that of another task.
    """
    if folder.digest([part]) != digest:
        raise InvalidTaskError(f"{part}/ has changed since the run was started")
    target.mkdir(parents=True, exist_ok=True)
    for entry in folder.entries(part):
        place = target / entry.relative
        place.parent.mkdir(parents=True, exist_ok=True)
        if entry.link is not None:
            os.symlink(entry.link, place)
        else:
            _copy(entry, place, rewrite)


def _copy(entry: Entry, place: Path, rewrite: Callable[[str], str]) -> None:
    with place.open("xb") as stream:
        if entry.size <= _LARGEST_REWRITTEN_BYTES:
            stream.write(_rewritten(b"".join(read_entry(entry)), rewrite))
        else:
            for piece in read_entry(entry):
                stream.write(piece)
    # Readable for whichever user the verifier is.
    place.chmod(0o755 if entry.mode & stat.S_IXUSR else 0o644)


def _rewritten(data: bytes, rewrite: Callable[[str], str]) -> bytes:
    """Text with paths rewritten; anything else as it is."""
    if b"\0" in data:
        return data
    try:
        return rewrite(data.decode("utf-8")).encode("utf-8")
    except UnicodeDecodeError:
        return data
