"""What identifies a collected file or tree.

A file is identified by the sha256 of its bytes. A tree by the sha256 of one record per entry,
in the order of their paths as bytes: ``kind mode payload path``, each ended by a NUL. ``kind`` is
``d``, ``f`` or ``l``; ``mode`` is three octal digits; ``payload`` is the hex sha256 of a file, the
text of a link, empty for a folder. The source itself has the path ``.``.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from ...contracts.artifacts import ArtifactKind

FOLDER, FILE, LINK = "d", "f", "l"
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class TreeEntry:
    """One file, folder or link of a tree; ``parts`` are its path below the source."""

    parts: tuple[str, ...]
    kind: str
    mode: int
    payload: str = ""
    size: int = 0


@dataclass(frozen=True)
class Content:
    """What the manifest says of collected content."""

    kind: ArtifactKind
    sha256: str
    size_bytes: int
    file_count: int


def summarize(entries: Iterable[TreeEntry]) -> Content:
    """The manifest's facts about ``entries``, of which the one without parts is the source itself."""
    ordered = sorted(entries, key=lambda entry: os.fsencode("/".join(entry.parts)))
    size = sum(entry.size for entry in ordered)
    count = sum(entry.kind != FOLDER for entry in ordered)
    if ordered[0].kind == FILE:
        return Content(ArtifactKind.FILE, ordered[0].payload, size, count)
    digest = hashlib.sha256()
    for entry in ordered:
        path = "/".join(entry.parts) or "."
        for part in (entry.kind, f"{entry.mode:03o}", entry.payload, path):
            digest.update(os.fsencode(part) + b"\0")
    return Content(ArtifactKind.DIRECTORY, digest.hexdigest(), size, count)


def content_of(path: Path) -> Content:
    """Read a stored artifact again. Raises ``OSError`` when it is not there or holds anything strange."""
    if stat.S_ISREG(os.lstat(path).st_mode):
        return summarize([_file((), os.open(path, _FLAGS))])
    entries: list[TreeEntry] = []
    for folder, folders, files, opened in os.fwalk(path, follow_symlinks=False, onerror=_raise):
        here = Path(folder).relative_to(path).parts
        entries.append(TreeEntry(here, FOLDER, stat.S_IMODE(os.fstat(opened).st_mode)))
        for name in (*folders, *files):
            mode = os.stat(name, dir_fd=opened, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                entries.append(TreeEntry((*here, name), LINK, 0o777, os.readlink(name, dir_fd=opened)))
            elif not stat.S_ISDIR(mode):
                entries.append(_file((*here, name), os.open(name, _FLAGS, dir_fd=opened)))
    return summarize(entries)


def _file(parts: tuple[str, ...], descriptor: int) -> TreeEntry:
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{'/'.join(parts) or 'the artifact'} is no regular file any more")
        sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
    return TreeEntry(parts, FILE, stat.S_IMODE(status.st_mode), sha256, status.st_size)


def _raise(error: OSError) -> NoReturn:
    raise error
