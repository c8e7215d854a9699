"""Reading, writing and copying files of a sandbox, from the worker's side. Everything here blocks."""

from __future__ import annotations

import posixpath
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath

from ...archives.archive_reader import ArchiveReader, BrokenArchiveError, MemberKind
from ..shared import packing, unpacking
from ..shared.packing import Owner
from .archive import ContainerFiles, pieces_of


def absolute(path: str, workdir: str) -> str:
    """A path of the sandbox. Raises ``ValueError`` for one with a NUL character."""
    if "\0" in path or not path:
        raise ValueError(f"{path!r} is not a usable path")
    return posixpath.normpath(posixpath.join(workdir, path))


def read_file(files: ContainerFiles, path: str, max_bytes: int | None) -> bytes:
    """A file's bytes. Raises ``FileNotFoundError``; ``ValueError`` above ``max_bytes``; ``OSError``."""
    where, found = files.resolved(path)
    if found.kind == stat.S_IFDIR:
        raise IsADirectoryError(f"{path} is a folder")
    if found.kind != stat.S_IFREG:
        raise OSError(f"{path} is not a regular file")
    _require_small(path, found.size, max_bytes)
    pieces = pieces_of(files.read_archive(where))
    try:
        reader = ArchiveReader(unpacking.StreamReader(pieces, threading.Event()).read)
        for member in reader.members():
            if member.kind is not MemberKind.FILE:
                break
            _require_small(path, member.size, max_bytes)  # it may have grown
            return b"".join(reader.content())
    except BrokenArchiveError as error:
        raise OSError(f"{path}: {error}") from error
    finally:
        pieces.close()  # type: ignore[attr-defined]  # a generator
    raise OSError(f"{path} is not a regular file")


def _require_small(path: str, size: int, max_bytes: int | None) -> None:
    if max_bytes is not None and size > max_bytes:
        raise ValueError(f"{path} is larger than {max_bytes} bytes")


def write_file(files: ContainerFiles, path: str, data: bytes, mode: int, owner: Owner) -> None:
    """Write a file, making its parent folders. A link at ``path`` itself is replaced, not followed."""
    place = _Place.of(files, path, folder=posixpath.dirname(path))
    content = packing.file_member(place.member, data, mode, owner)
    files.unpack(place.folder, place.with_folders(content, owner), replace_folders=False)


def upload(
    files: ContainerFiles, source: Path, destination: str, owner: Owner, stop: threading.Event
) -> None:
    """Copy a local file to the path ``destination``, or merge a local tree into that folder."""
    if source.is_dir():
        place = _Place.of(files, destination, folder=destination)
        content = packing.local_tree(source, place.member, owner, stop)
    elif source.exists():
        place = _Place.of(files, destination, folder=posixpath.dirname(destination))
        content = packing.local_file(source.resolve(), place.member, owner, stop)
    else:
        raise FileNotFoundError(f"{source} does not exist")
    files.unpack(place.folder, place.with_folders(content, owner), replace_folders=source.is_dir())


@dataclass(frozen=True)
class _Place:
    """Where an archive is unpacked: at what exists, so that only what is missing is made."""

    folder: str
    missing: list[str]
    """Folders to make, relative to ``folder``, the outermost first."""
    member: str
    """The wanted path relative to ``folder``; ``.`` for itself."""

    @classmethod
    def of(cls, files: ContainerFiles, path: str, folder: str) -> _Place:
        existing = files.existing_part(folder)
        below = PurePosixPath(folder).relative_to(existing)
        missing = [str(part) for part in (below, *below.parents) if part.parts][::-1]
        return cls(existing, missing, str(PurePosixPath(path).relative_to(existing)))

    def with_folders(self, content: Iterator[bytes], owner: Owner) -> Iterator[bytes]:
        headers = [packing.folder_header(path, owner) for path in self.missing]
        return chain(headers, content, [packing.END])


def download(files: ContainerFiles, source: str, destination: Path, stop: threading.Event) -> None:
    """Copy a file to the path ``destination``, or merge a tree into that folder."""
    where, _ = files.resolved(source)
    pieces = pieces_of(files.read_archive(where))
    try:
        unpacking.receive(pieces, where, destination, stop)
    finally:
        pieces.close()  # type: ignore[attr-defined]  # a generator
