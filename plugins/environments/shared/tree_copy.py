"""Copying files and trees into and out of an environment that may hold hostile links.

Everything goes through descriptors of folders that were opened without following links. Devices,
pipes and sockets are not data and are left out; nothing is ever copied as a hard link.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
import uuid
from enum import Enum
from pathlib import Path
from typing import BinaryIO, NoReturn

_BUFFER_BYTES = 1024 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class Links(Enum):
    """What happens to symbolic links inside a tree."""

    AS_THEY_ARE = "copied with their text"
    INSIDE_ONLY = "made relative to what they mean; left out when that is outside the tree"


class CopyStoppedError(Exception):
    """Whoever wanted the copy does not want it any more."""


def copy_file(source: Path, destination: Path, stop: threading.Event) -> None:
    """Copy one file with its permission bits. Raises ``OSError`` when it is not a regular file,
    ``CopyStoppedError`` soon after ``stop`` was set."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    target = os.open(destination.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with open_regular(source) as opened:
            _write_to(opened.fileno(), target, destination.name, stop)
    finally:
        os.close(target)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; a pipe that nobody writes to does not block.

    Raises ``FileNotFoundError``; ``IsADirectoryError``; ``OSError`` for anything that is no file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "rb")


def copy_tree(source: Path, destination: Path, links: Links, stop: threading.Event) -> None:
    """Merge the tree ``source`` into the folder ``destination``, which is made when it is missing.

    Files are replaced as a whole. A link that stands where a folder belongs is replaced by one.
    Raises ``OSError`` for what cannot be read, and for a tree that is nested too deep;
    ``CopyStoppedError`` soon after ``stop`` was set.
    """
    destination.mkdir(parents=True, exist_ok=True)
    top = os.open(destination, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder, folders, files, opened in os.fwalk(source, follow_symlinks=False, onerror=_raise):
            relative = Path(os.path.relpath(folder, source))
            target = _folder_below(top, relative)
            try:
                for name in (*folders, *files):
                    _copy_entry(opened, name, target, Path(folder), source, links, stop)
                if relative.parts:
                    os.fchmod(target, stat.S_IMODE(os.fstat(opened).st_mode) & 0o777 | stat.S_IRWXU)
            finally:
                os.close(target)
    except RecursionError:
        raise OSError(f"{source} is nested too deep to be copied") from None
    finally:
        os.close(top)


def _copy_entry(
    opened: int,
    name: str,
    target: int,
    folder: Path,
    source: Path,
    links: Links,
    stop: threading.Event,
) -> None:
    mode = os.stat(name, dir_fd=opened, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        text = os.readlink(name, dir_fd=opened)
        kept = text if links is Links.AS_THEY_ARE else _inside(folder, text, source)
        if kept is not None:
            _place_link(kept, name, target)
    elif stat.S_ISREG(mode):
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=opened)
        try:
            _write_to(descriptor, target, name, stop)
        finally:
            os.close(descriptor)


def _inside(folder: Path, text: str, source: Path) -> str | None:
    """What the link ``text`` in ``folder`` finally means, relative to ``folder``; ``None`` outside.

    Resolved as a whole: a chain of links that are harmless one by one can still lead out.
    """
    here, root = os.path.realpath(folder), os.path.realpath(source)
    meant = os.path.realpath(os.path.join(here, text))
    return os.path.relpath(meant, here) if Path(meant).is_relative_to(root) else None


def _place_link(text: str, name: str, target: int) -> None:
    temporary = _temporary(name)
    os.symlink(text, temporary, dir_fd=target)
    os.replace(temporary, name, src_dir_fd=target, dst_dir_fd=target)


def _write_to(source: int, target: int, name: str, stop: threading.Event) -> None:
    # Under a new name first: what stands at ``name`` may be a link, or a hard link to elsewhere.
    temporary = _temporary(name)
    mode = stat.S_IMODE(os.fstat(source).st_mode) & 0o777 | stat.S_IRUSR | stat.S_IWUSR
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=target)
    try:
        with (
            os.fdopen(descriptor, "wb") as written,
            os.fdopen(source, "rb", closefd=False) as read,
        ):
            while data := read.read(_BUFFER_BYTES):
                if stop.is_set():
                    raise CopyStoppedError
                written.write(data)
            os.fchmod(written.fileno(), mode)
        if stop.is_set():
            raise CopyStoppedError
        os.replace(temporary, name, src_dir_fd=target, dst_dir_fd=target)
    except BaseException:
        os.unlink(temporary, dir_fd=target)
        raise


def _folder_below(top: int, relative: Path) -> int:
    """Open ``relative`` below ``top``, making folders; the caller closes it."""
    current = os.dup(top)
    for part in relative.parts:
        try:
            following = _enter(current, part)
        finally:
            os.close(current)
        current = following
    return current


def _enter(parent: int, name: str) -> int:
    try:
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=parent)
            os.mkdir(name, 0o755, dir_fd=parent)
    except FileNotFoundError:
        os.mkdir(name, 0o755, dir_fd=parent)
    return os.open(name, _FOLDER, dir_fd=parent)


def _temporary(name: str) -> str:
    return f".{name[:100]}.{uuid.uuid4().hex[:8]}"


def _raise(error: OSError) -> NoReturn:
    raise error
