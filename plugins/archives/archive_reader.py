"""Reading a tar archive that may have been made to harm its reader.

``tarfile`` takes any damaged header for the end of the archive, and reads extended headers of any
length into memory. Here an archive that breaks off, or that is malformed, is an error, and nothing
but file content may be large.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

_BLOCK = 512
_CHUNK = 256 * 1024
_LONGEST_HEADER = 1024 * 1024
_ENCODING, _ERRORS = "utf-8", "surrogateescape"


class BrokenArchiveError(Exception):
    """The archive breaks off or is no archive."""


class MemberKind(Enum):
    """What a member is; ``SPECIAL`` is a device, pipe, or anything without content."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "symbolic link"
    HARD_LINK = "hard link"
    SPECIAL = "special"


@dataclass(frozen=True)
class Member:
    """A header of the archive. Names are as found; bytes that are no UTF-8 are lone surrogates."""

    name: str
    kind: MemberKind
    mode: int
    size: int
    link: str


_KINDS = {
    tarfile.REGTYPE: MemberKind.FILE,
    tarfile.AREGTYPE: MemberKind.FILE,
    tarfile.CONTTYPE: MemberKind.FILE,
    tarfile.DIRTYPE: MemberKind.FOLDER,
    tarfile.SYMTYPE: MemberKind.LINK,
    tarfile.LNKTYPE: MemberKind.HARD_LINK,
    tarfile.CHRTYPE: MemberKind.SPECIAL,
    tarfile.BLKTYPE: MemberKind.SPECIAL,
    tarfile.FIFOTYPE: MemberKind.SPECIAL,
}
_PAX, _PAX_GLOBAL = tarfile.XHDTYPE, tarfile.XGLTYPE


class ArchiveReader:
    """Members one after the other; the content of the current one is read or skipped.

    ``read(n)`` returns at most ``n`` bytes, and none only at the end. Raises ``BrokenArchiveError``.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._left = 0
        self._padding = 0

    def members(self) -> Iterator[Member]:
        """Every member up to the end of the archive; then the stream is read to its end."""
        extended: dict[str, str] = {}
        while True:
            self._skip()
            block = self._exactly(_BLOCK)
            if not block.strip(b"\0"):
                break
            header = self._header(block)
            if header.type in (_PAX, _PAX_GLOBAL):
                records = _pax_records(self._extended(header.size))
                extended |= records if header.type == _PAX else {}
            elif header.type == tarfile.GNUTYPE_LONGNAME:
                extended["path"] = _text(self._extended(header.size).rstrip(b"\0"))
            elif header.type == tarfile.GNUTYPE_LONGLINK:
                extended["linkpath"] = _text(self._extended(header.size).rstrip(b"\0"))
            else:
                yield self._member(header, extended)
                extended = {}
        while self._read(_CHUNK):
            pass

    def content(self) -> Iterator[bytes]:
        """The bytes of the current member, in pieces."""
        while self._left:
            data = self._read(min(self._left, _CHUNK))
            if not data:
                raise BrokenArchiveError("the archive breaks off inside a file")
            self._left -= len(data)
            yield data

    def _member(self, header: tarfile.TarInfo, extended: dict[str, str]) -> Member:
        kind = _KINDS.get(header.type)
        if kind is None or any(key.startswith("GNU.sparse") for key in extended):
            raise BrokenArchiveError(f"the archive has a member of a kind that is not read: {header.type!r}")
        try:
            size = int(extended.get("size", header.size)) if kind is MemberKind.FILE else 0
        except ValueError:
            size = -1
        if size < 0:
            raise BrokenArchiveError("the archive has a member of impossible size")
        self._left, self._padding = size, -size % _BLOCK
        name, link = extended.get("path", header.name), extended.get("linkpath", header.linkname)
        return Member(name=name, kind=kind, mode=header.mode & 0o777, size=size, link=link)

    @staticmethod
    def _header(block: bytes) -> tarfile.TarInfo:
        try:
            header = tarfile.TarInfo.frombuf(block, _ENCODING, _ERRORS)
        except (tarfile.HeaderError, ValueError, OverflowError) as error:
            raise BrokenArchiveError(f"this is no tar archive: {error}") from None
        if header.size < 0:
            raise BrokenArchiveError("the archive has a member of impossible size")
        return header

    def _extended(self, size: int) -> bytes:
        if size > _LONGEST_HEADER:
            raise BrokenArchiveError(f"the archive has a name or header of {size} bytes")
        data = self._exactly(size)
        self._exactly(-size % _BLOCK)
        return data

    def _skip(self) -> None:
        for _ in self.content():
            pass
        self._exactly(self._padding)
        self._padding = 0

    def _exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            data = self._read(size)
            if not data:
                raise BrokenArchiveError("the archive breaks off")
            parts.append(data)
            size -= len(data)
        return b"".join(parts)


def _pax_records(data: bytes) -> dict[str, str]:
    """``length key=value\\n`` records, as POSIX.1-2001 defines them."""
    records: dict[str, str] = {}
    while data:
        digits, _, _ = data.partition(b" ")
        if not digits.isdigit() or len(digits) > 8:
            raise BrokenArchiveError("the archive has a malformed extended header")
        record, data = data[: int(digits)], data[int(digits) :]
        key, equals, value = record[len(digits) + 1 : -1].partition(b"=")
        if not equals or not record.endswith(b"\n"):
            raise BrokenArchiveError("the archive has a malformed extended header")
        records[_text(key)] = _text(value)
    return records


def _text(data: bytes) -> str:
    return data.decode(_ENCODING, _ERRORS)
