"""An archive that a sandbox made, unpacked on the worker: nothing in it is trusted."""

from __future__ import annotations

import errno
import posixpath
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import ParamSpec

from ...archives import links
from ...archives.archive_reader import ArchiveReader, BrokenArchiveError, Member, MemberKind
from ...archives.links import Parts
from ...archives.tree_writer import TreeWriter
from .tree_copy import CopyStoppedError, Links, copy_file, copy_tree

P = ParamSpec("P")

_TOP = "content"
_DEEPEST = 200
_NAME_ERRORS = (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL)


class StreamReader:
    """``read(n)`` on pieces of any size, as :class:`ArchiveReader` wants it."""

    def __init__(self, pieces: Iterator[bytes], stop: threading.Event) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")
        self._stop = stop

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes, none at the end. Raises ``CopyStoppedError`` after ``stop`` was set."""
        while not self._rest:
            if self._stop.is_set():
                raise CopyStoppedError
            piece = next(self._pieces, None)
            if piece is None:
                return b""
            self._rest = memoryview(piece)
        taken, self._rest = self._rest[:size], self._rest[size:]
        return bytes(taken)


def receive(pieces: Iterator[bytes], source: str, destination: Path, stop: threading.Event) -> None:
    """Bring what was at ``source`` to ``destination``: a file to the path, a tree merged into the folder.

    Links that leave the tree, and what is no file, folder or link, are left out. Raises ``OSError``.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".incoming-") as folder:
        with TreeWriter(Path(folder)) as writer:
            received = _Received(writer, source)
            try:
                received.take_all(ArchiveReader(StreamReader(pieces, stop).read))
            except BrokenArchiveError as error:
                raise OSError(f"{source}: {error}") from error
        found = Path(folder, _TOP)
        if found.is_dir():
            copy_tree(found, destination, Links.AS_THEY_ARE, stop)
        elif found.exists():
            copy_file(found, destination, stop)
        else:
            raise OSError(f"{source} is neither a file nor a folder")


class _Received:
    def __init__(self, writer: TreeWriter, source: str) -> None:
        self._writer = writer
        self._source = source
        self._folders: dict[Parts, int] = {}
        self._files: set[Parts] = set()
        self._links: dict[Parts, str] = {}

    def take_all(self, reader: ArchiveReader) -> None:
        for member in reader.members():
            parts = _parts(member.name)
            if parts is not None:
                self._take(parts, member, reader)
        # Only now, so that nothing was ever written through a link.
        for link in self._links:
            if not links.refusal(link, self._links):
                _tolerating_names(self._writer.link, (_TOP, *link), self._links[link])
        for folder in sorted(self._folders, key=len, reverse=True):
            self._writer.set_mode((_TOP, *folder), self._folders[folder] | 0o700)

    def _take(self, parts: Parts, member: Member, reader: ArchiveReader) -> None:
        if member.kind is MemberKind.FOLDER:
            if self._make_folders(parts):
                self._folders[parts] = member.mode
        elif parts in self._files or parts in self._folders or parts in self._links:
            return  # twice in one archive: the first one counts
        elif not self._make_folders(parts[:-1] if parts else None):
            return
        elif member.kind is MemberKind.LINK and parts:
            self._links[parts] = self._relative(parts, member.link)
        elif member.kind is MemberKind.FILE:
            self._write(parts, reader.content(), member.mode)
        elif member.kind is MemberKind.HARD_LINK:
            target = _parts(member.link)
            if target in self._files:
                self._write(parts, self._writer.read((_TOP, *target)), member.mode)

    def _write(self, parts: Parts, content: Iterable[bytes], mode: int) -> None:
        if _tolerating_names(self._writer.file, (_TOP, *parts), content, mode | 0o600):
            self._files.add(parts)

    def _make_folders(self, parts: Parts | None) -> bool:
        """Make what is missing of a folder; False when something else is in its place."""
        for length in range(len(parts) + 1 if parts is not None else 0):
            here = (parts or ())[:length]
            if here in self._links or here in self._files:
                return False
            if here not in self._folders:
                if not _tolerating_names(self._writer.folder, (_TOP, *here)):
                    return False
                self._folders[here] = 0o755
        return True

    def _relative(self, link: Parts, text: str) -> str:
        """An absolute link into the tree, made relative, so that it still holds where the tree goes."""
        if not text.startswith("/"):
            return text
        inside = posixpath.relpath(posixpath.normpath(text), self._source)
        if inside == ".." or inside.startswith("../"):
            return text  # leads out, and is refused for that
        return posixpath.join(*([".."] * (len(link) - 1)), inside)


def _parts(name: str) -> Parts | None:
    """The path below the source, ``None`` for a name that no honest archive has."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if name.startswith("/") or "\0" in name or ".." in parts or not parts or len(parts) > _DEEPEST:
        return None
    return parts[1:]


def _tolerating_names(work: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> bool:
    """Whether it was done; a name that this file system cannot hold is left out, as links are."""
    try:
        work(*args, **kwargs)
    except OSError as error:
        if error.errno not in _NAME_ERRORS:
            raise
        return False
    return True
