"""From a hostile archive to a folder of ours: plain files, folders, and links that stay inside."""

from __future__ import annotations

import contextlib
import errno
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...contracts.artifacts import RefusedMember, is_excluded
from ...plugins.archives import links
from ...plugins.archives.archive_reader import ArchiveReader, Member, MemberKind
from ...plugins.archives.links import Parts
from ...plugins.archives.tree_writer import TreeWriter
from .digest import FILE, FOLDER, LINK, Content, TreeEntry, summarize
from .meter import TransferMeter

TOP = "content"
"""What the source is called in the folder that it is written to."""

_DEEPEST = 100
_LISTED = 100
_LONGEST_SHOWN = 200
_NAME_ERRORS = (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL)


class _RefusedError(Exception):
    """This member is not taken; the others are."""


@dataclass
class Extracted:
    """What an archive held. ``content`` is ``None`` when nothing of it was kept."""

    content: Content | None = None
    excluded: int = 0
    refused: list[RefusedMember] = field(default_factory=list)
    refused_count: int = 0


class Extraction:
    """Takes one archive. ``name`` is the last component of the source, with which members begin."""

    def __init__(self, folder: Path, name: str, exclude: Sequence[str], meter: TransferMeter) -> None:
        self._folder = folder
        self._name = name
        self._exclude = exclude
        self._meter = meter
        self._entries: dict[Parts, TreeEntry] = {}
        self._links: dict[Parts, str] = {}
        self._result = Extracted()

    def run(self, reader: ArchiveReader) -> Extracted:
        """Write what may be written below ``folder/content``.

        Raises ``BrokenArchiveError``, ``LimitExceededError`` and ``OSError``; nothing is complete then.
        """
        with TreeWriter(self._folder) as writer:
            for member in reader.members():
                try:
                    self._take(member, reader, writer)
                except _RefusedError as refused:
                    self._refuse(self._below(member.name), str(refused))
            # Only now, so that nothing was ever written through a link.
            for parts in self._links:
                self._place(parts, writer)
            # Deepest first: a folder may become unreadable for its owner's own listing, never for us.
            for parts in sorted(self._entries, key=len, reverse=True):
                if self._entries[parts].kind == FOLDER:
                    writer.set_mode((TOP, *parts), self._entries[parts].mode)
        if self._entries:
            self._result.content = summarize(self._entries.values())
        return self._result

    def _take(self, member: Member, reader: ArchiveReader, writer: TreeWriter) -> None:
        parts = self._parts(member.name)
        if is_excluded(parts or (self._name,), self._exclude) and (
            parts or member.kind is not MemberKind.FOLDER
        ):
            self._result.excluded += 1
            return
        self._meter.entry()
        if member.kind is MemberKind.SPECIAL:
            raise _RefusedError("a device, pipe or socket, which holds no data")
        if member.kind is MemberKind.FOLDER:
            self._make_folders(parts, writer)
            self._entries[parts] = TreeEntry(parts, FOLDER, member.mode | 0o700)
            return
        if parts in self._entries or parts in self._links:
            raise _RefusedError("the archive holds this path twice")
        if member.kind is MemberKind.LINK:
            if not parts:
                raise _RefusedError(f"a symbolic link to {_shown(member.link)}; declare what it leads to")
            self._make_folders(parts[:-1], writer)
            self._links[parts] = member.link
            return
        if parts:
            self._make_folders(parts[:-1], writer)
        content: Iterable[bytes] = reader.content()
        size, mode = member.size, member.mode | 0o600
        if member.kind is MemberKind.HARD_LINK:
            content, size, mode = self._linked(member, writer)
        self._meter.content(size, _shown("/".join((self._name, *parts))))
        self._write(parts, content, size, mode, writer)

    def _parts(self, name: str) -> Parts:
        """The path below the source that a member's name stands for."""
        parts = tuple(part for part in name.split("/") if part not in ("", "."))
        if name.startswith("/") or "\0" in name:
            raise _RefusedError("an absolute path")
        if ".." in parts:
            raise _RefusedError("a path with '..'")
        if parts[:1] != (self._name,):
            raise _RefusedError("a path outside of the source")
        if len(parts) > _DEEPEST:
            raise _RefusedError(f"nested more than {_DEEPEST} levels deep")
        return parts[1:]

    def _make_folders(self, parts: Parts, writer: TreeWriter) -> None:
        """Make what is missing of a folder and those above it; archives need not list them."""
        for length in range(len(parts) + 1):
            here = parts[:length]
            if here in self._links:
                raise _RefusedError("below a symbolic link")
            known = self._entries.get(here)
            if known is None:
                if length < len(parts):
                    self._meter.entry()
                with _refusing_names():
                    writer.folder((TOP, *here))
                self._entries[here] = TreeEntry(here, FOLDER, 0o755)
            elif known.kind != FOLDER:
                raise _RefusedError("below something that is no folder")

    def _linked(self, member: Member, writer: TreeWriter) -> tuple[Iterable[bytes], int, int]:
        """A hard link becomes a copy of the file that it names, if that was taken from this archive."""
        target = self._entries.get(self._parts(member.link))
        if target is None or target.kind != FILE:
            raise _RefusedError(f"a hard link to {_shown(member.link)}, which was not collected")
        return writer.read((TOP, *target.parts)), target.size, target.mode

    def _write(
        self, parts: Parts, content: Iterable[bytes], size: int, mode: int, writer: TreeWriter
    ) -> None:
        digest = hashlib.sha256()

        def hashed() -> Iterator[bytes]:
            for piece in content:
                digest.update(piece)
                yield piece

        with _refusing_names():
            writer.file((TOP, *parts), hashed(), mode)
        self._entries[parts] = TreeEntry(parts, FILE, mode, digest.hexdigest(), size)

    def _place(self, parts: Parts, writer: TreeWriter) -> None:
        reason = links.refusal(parts, self._links)
        if not reason:
            try:
                with _refusing_names():
                    writer.link((TOP, *parts), self._links[parts])
            except _RefusedError as refused:
                reason = str(refused)
        if reason:
            self._refuse(_shown("/".join(parts)), reason)
        else:
            self._entries[parts] = TreeEntry(parts, LINK, 0o777, self._links[parts])

    def _below(self, name: str) -> str:
        """A member's name for people: relative to the source where it is below it."""
        while name.startswith("./"):
            name = name[2:]
        return _shown("." if name.rstrip("/") == self._name else name.removeprefix(f"{self._name}/"))

    def _refuse(self, path: str, reason: str) -> None:
        self._result.refused_count += 1
        if len(self._result.refused) < _LISTED:
            self._result.refused.append(RefusedMember(path=path, reason=reason))


@contextlib.contextmanager
def _refusing_names() -> Iterator[None]:
    """A name that this file system cannot hold is the agent's doing; other errors are ours."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NAME_ERRORS:
            raise
        raise _RefusedError(f"a name that cannot be stored: {error.strerror}") from None


def _shown(text: str) -> str:
    """``text`` in one printable line of bounded length."""
    line = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    return line if len(line) <= _LONGEST_SHOWN else f"{line[:_LONGEST_SHOWN]}…"
