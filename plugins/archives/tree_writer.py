"""Writing a tree below a folder that is ours, through descriptors that follow no link."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from .links import Parts

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TreeWriter:
    """Makes files, folders and links; nothing that exists is written to.

    Every method raises ``OSError`` (``FileExistsError``, a name that is too long, a full disk).
    """

    def __init__(self, folder: Path) -> None:
        self._top = os.open(folder, _FOLDER)

    def __enter__(self) -> TreeWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._top)

    def folder(self, parts: Parts) -> None:
        """Make a folder whose parent exists; writable for us until ``set_mode``."""
        parent = self._open(parts[:-1])
        try:
            os.mkdir(_name(parts), 0o700, dir_fd=parent)
        finally:
            os.close(parent)

    def file(self, parts: Parts, data: Iterable[bytes], mode: int) -> None:
        """Make a file and fill it."""
        parent = self._open(parts[:-1])
        try:
            descriptor = os.open(_name(parts), _NEW_FILE, 0o600, dir_fd=parent)
        finally:
            os.close(parent)
        with os.fdopen(descriptor, "wb", buffering=0) as stream:
            for piece in data:
                view = memoryview(piece)
                while view:
                    view = view[stream.write(view) :]
            os.fchmod(stream.fileno(), mode)

    def link(self, parts: Parts, text: str) -> None:
        """Make a symbolic link; the caller has seen where it leads."""
        parent = self._open(parts[:-1])
        try:
            os.symlink(os.fsencode(text), _name(parts), dir_fd=parent)
        finally:
            os.close(parent)

    def set_mode(self, parts: Parts, mode: int) -> None:
        """Give a folder its permissions."""
        opened = self._open(parts)
        try:
            os.fchmod(opened, mode)
        finally:
            os.close(opened)

    def read(self, parts: Parts, size: int = 256 * 1024) -> Iterable[bytes]:
        """The bytes of a file that was written before, in pieces."""
        parent = self._open(parts[:-1])
        try:
            descriptor = os.open(_name(parts), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        finally:
            os.close(parent)
        with os.fdopen(descriptor, "rb", buffering=0) as stream:
            while data := stream.read(size):
                yield data

    def _open(self, parts: Parts) -> int:
        current = os.dup(self._top)
        for part in parts:
            try:
                following = os.open(os.fsencode(part), _FOLDER, dir_fd=current)
            finally:
                os.close(current)
            current = following
        return current


def _name(parts: Parts) -> bytes:
    return os.fsencode(parts[-1])
