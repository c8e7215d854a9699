"""Local files and trees as tar archives for a sandbox, made while they are sent."""

from __future__ import annotations

import os
import stat
import tarfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from .tree_copy import CopyStoppedError, open_regular

_PIECE = 256 * 1024
END = b"\0" * (2 * tarfile.BLOCKSIZE)


@dataclass(frozen=True)
class Owner:
    """Whom files inside belong to."""

    uid: int = 0
    gid: int = 0
    modified: int | None = None
    """Unix seconds for everything; default: those of the local files, and now for what is none."""


def folder_header(path: str, owner: Owner, mode: int = 0o755) -> bytes:
    """A folder."""
    return _header(path, tarfile.DIRTYPE, mode, owner)


def file_member(path: str, data: bytes, mode: int, owner: Owner) -> Iterator[bytes]:
    """A file whose content is at hand."""
    yield _header(path, tarfile.REGTYPE, mode, owner, size=len(data))
    yield data
    yield b"\0" * (-len(data) % tarfile.BLOCKSIZE)


def local_file(source: Path, path: str, owner: Owner, stop: threading.Event) -> Iterator[bytes]:
    """A local file. Raises ``OSError`` when it is no regular file or changes while it is read."""
    with open_regular(source) as stream:
        status = os.fstat(stream.fileno())
        mode = stat.S_IMODE(status.st_mode) & 0o777
        yield _header(path, tarfile.REGTYPE, mode, owner, size=status.st_size, modified=status.st_mtime)
        left = status.st_size
        while left:
            if stop.is_set():
                raise CopyStoppedError
            data = stream.read(min(left, _PIECE))
            if not data:
                raise OSError(f"{source} became shorter while it was read")
            left -= len(data)
            yield data
        yield b"\0" * (-status.st_size % tarfile.BLOCKSIZE)


def chosen(folder: Path, paths: Sequence[str], owner: Owner, stop: threading.Event) -> Iterator[bytes]:
    """Some entries of a folder by their relative paths, in that order."""
    for path in paths:
        entry = folder / path
        mode = entry.lstat().st_mode
        if stat.S_ISDIR(mode):
            yield folder_header(path, owner, stat.S_IMODE(mode) & 0o777 | stat.S_IRWXU)
        elif stat.S_ISLNK(mode):
            yield _header(path, tarfile.SYMTYPE, 0o777, owner, link=os.readlink(entry))
        elif stat.S_ISREG(mode):
            yield from local_file(entry, path, owner, stop)


def local_tree(source: Path, path: str, owner: Owner, stop: threading.Event) -> Iterator[bytes]:
    """A local tree without its top: folders, files and links with their text; nothing else is data."""
    for folder, folders, files in os.walk(source, followlinks=False, onerror=_raise):
        relative = os.path.relpath(folder, source)
        here = path if relative == "." else f"{path}/{relative}"
        if relative != ".":
            yield folder_header(here, owner, stat.S_IMODE(os.lstat(folder).st_mode) & 0o777 | stat.S_IRWXU)
        for name in (*folders, *files):
            entry = Path(folder, name)
            mode = entry.lstat().st_mode
            if stat.S_ISLNK(mode):
                yield _header(f"{here}/{name}", tarfile.SYMTYPE, 0o777, owner, link=os.readlink(entry))
            elif stat.S_ISREG(mode):
                yield from local_file(entry, f"{here}/{name}", owner, stop)


def _header(
    path: str,
    kind: bytes,
    mode: int,
    owner: Owner,
    *,
    size: int = 0,
    link: str = "",
    modified: float | None = None,
) -> bytes:
    header = tarfile.TarInfo(path.lstrip("/") + ("/" if kind == tarfile.DIRTYPE else ""))
    header.type, header.size, header.linkname, header.mode = kind, size, link, mode
    header.uid, header.gid = owner.uid, owner.gid
    modified = time.time() if modified is None else modified
    header.mtime = int(modified) if owner.modified is None else owner.modified
    # Not pax: the tar of busybox ignores its long names.
    return header.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _raise(error: OSError) -> NoReturn:
    raise error
