"""A file or tree of an environment as a tar archive, made while it is read. Blocks: use a thread."""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from ....contracts.artifacts import is_excluded
from .directory import EnvironmentDirectory

_PIECE = 256 * 1024
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SPECIAL = {stat.S_IFCHR: tarfile.CHRTYPE, stat.S_IFBLK: tarfile.BLKTYPE}

Parts = tuple[str, ...]


def pack(directory: EnvironmentDirectory, path: str, exclude: Sequence[str]) -> Generator[bytes, None, None]:
    """The archive in pieces. Files are opened as folders are walked, without following links.

    Raises ``FileNotFoundError``; ``PermissionError`` for a path that leads out of the environment;
    ``OSError`` for what cannot be read or changes meanwhile.
    """
    top = directory.resolve(path, follow=False)
    status = os.lstat(top)
    if not stat.S_ISDIR(status.st_mode):
        parent = os.open(top.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield from _entry(parent, top.name, (top.name,))
        finally:
            os.close(parent)
    else:
        try:
            yield from _tree(top, exclude)
        except RecursionError:
            raise OSError(f"{path} is nested too deep to be read") from None
    yield b"\0" * (2 * tarfile.BLOCKSIZE)


def _tree(top: Path, exclude: Sequence[str]) -> Iterator[bytes]:
    for folder, folders, files, opened in os.fwalk(top, follow_symlinks=False, onerror=_raise):
        below = Path(folder).relative_to(top).parts
        here = (top.name, *below)
        yield _header(here, os.fstat(opened), tarfile.DIRTYPE)
        names = [name for name in (*folders, *files) if not is_excluded((*below, name), exclude)]
        folders[:] = [name for name in folders if name in names]
        for name in names:
            yield from _entry(opened, name, (*here, name))


def _entry(parent: int, name: str, parts: Parts) -> Iterator[bytes]:
    """Header and content of what is no folder; folders come when they are walked."""
    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFLNK:
        yield _header(parts, status, tarfile.SYMTYPE, link=os.readlink(name, dir_fd=parent))
    elif kind == stat.S_IFREG:
        yield from _file(parent, name, parts)
    elif kind != stat.S_IFDIR:
        # A socket has no kind of its own in an archive; to a reader it is as useless as a pipe.
        yield _header(parts, status, _SPECIAL.get(kind, tarfile.FIFOTYPE))


def _file(parent: int, name: str, parts: Parts) -> Iterator[bytes]:
    shown = "/".join(parts)
    try:
        descriptor = os.open(name, _READ, dir_fd=parent)
    except OSError as error:
        # Without the number, which would make it the error of a path that leads out.
        raise OSError(f"{shown!r} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb", buffering=0) as stream:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise OSError(f"{shown!r} changed while it was read")
        yield _header(parts, before, tarfile.REGTYPE, size=before.st_size)
        left = before.st_size
        while left:
            data = stream.read(min(left, _PIECE))
            if not data:
                raise OSError(f"{shown!r} changed while it was read: it became shorter")
            left -= len(data)
            yield data
        yield b"\0" * (-before.st_size % tarfile.BLOCKSIZE)
        after = os.fstat(descriptor)
        if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
            raise OSError(f"{shown!r} changed while it was read")


def _header(parts: Parts, status: os.stat_result, kind: bytes, *, size: int = 0, link: str = "") -> bytes:
    header = tarfile.TarInfo("/".join(parts))
    header.type, header.size, header.linkname = kind, size, link
    header.mode = stat.S_IMODE(status.st_mode)
    header.mtime = int(status.st_mtime)
    return header.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _raise(error: OSError) -> NoReturn:
    raise OSError(f"{error.filename!r} cannot be read: {error.strerror}") from error
