"""A task folder on disk. Its content is a stranger's: nothing in it is followed out of it."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from ....contracts.artifacts import is_excluded

MOST_FILES = 50_000
LARGEST_TEXT_BYTES = 1024 * 1024
_PARTS = (
    "task.toml",
    "instruction.md",
    "README.md",
    "trajectory.json",
    "environment",
    "tests",
    "solution",
    "steps",
)
_IGNORE = ".harborignore"
_PIECE = 1024 * 1024


class InvalidTaskError(Exception):
    """The folder is no task that can be run; the message says why, without the folder's name."""


@dataclass(frozen=True)
class Entry:
    """A file or link below a task folder."""

    path: Path
    relative: PurePosixPath
    link: str | None
    mode: int
    size: int = 0


@dataclass(frozen=True)
class TaskFolder:
    """The parts of a task by their names in the format."""

    path: Path

    def has(self, name: str) -> bool:
        """Whether a part is there, as itself and not as a link."""
        try:
            mode = (self.path / name).lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return False
        return stat.S_ISREG(mode) or stat.S_ISDIR(mode)

    def text(self, name: str) -> str:
        """A text file of the task. Raises ``InvalidTaskError``."""
        try:
            with _opened(self.path / name) as stream:
                data = stream.read(LARGEST_TEXT_BYTES + 1)
        except OSError as error:
            raise InvalidTaskError(f"{name} cannot be read: {error.strerror}") from None
        if len(data) > LARGEST_TEXT_BYTES:
            raise InvalidTaskError(f"{name} is larger than {LARGEST_TEXT_BYTES} bytes")
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidTaskError(f"{name} is not UTF-8 (byte {error.start + 1})") from None

    def entries(self, part: str) -> list[Entry]:
        """Files and links of a part, sorted, without what its ``.harborignore`` names.

        Raises ``InvalidTaskError`` for links that leave the part, devices, pipes, and too many files.
        """
        top = self.path / part
        if not self.has(part):
            return []
        if not top.is_dir():
            status = top.lstat()
            return [Entry(top, PurePosixPath(top.name), None, status.st_mode, status.st_size)]
        ignored = self._ignored(part)
        found: list[Entry] = []
        for path in _walk(top):
            relative = PurePosixPath(path.relative_to(top).as_posix())
            if _matches(relative, ignored):
                continue
            found.append(_checked(top, path, relative))
            if len(found) > MOST_FILES:
                raise InvalidTaskError(f"{part}/ has more than {MOST_FILES} files")
        return sorted(found, key=lambda entry: str(entry.relative))

    def digest(self, parts: Sequence[str] = _PARTS) -> str:
        """sha256 (hex) over the sorted lines ``relative path NUL sha256 LF`` of some parts."""
        lines = []
        for part in parts:
            for entry in self.entries(part):
                name = part if (self.path / part).is_file() else f"{part}/{entry.relative}"
                lines.append(f"{name}\0{_content_digest(entry)}\n")
        return hashlib.sha256("".join(sorted(lines)).encode("utf-8", "surrogateescape")).hexdigest()

    def _ignored(self, part: str) -> list[str]:
        """Patterns as in ``.gitignore``; exceptions (``!``) are refused, for they would be misread."""
        if PurePosixPath(part).name not in ("tests", "solution") or not self.has(f"{part}/{_IGNORE}"):
            return []
        lines = [line.strip() for line in self.text(f"{part}/{_IGNORE}").splitlines()]
        patterns = [line for line in lines if line and not line.startswith("#")]
        for pattern in patterns:
            if pattern.startswith("!"):
                raise InvalidTaskError(f"{part}/{_IGNORE}: {pattern!r}: exceptions are not understood")
        return [_IGNORE, *patterns]


def _walk(top: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(top, followlinks=False, onerror=_unreadable):
        for name in [*files, *(name for name in folders if (Path(folder) / name).is_symlink())]:
            yield Path(folder) / name


def _unreadable(error: OSError) -> None:
    raise InvalidTaskError(f"{error.filename} cannot be read: {error.strerror}") from None


def _checked(top: Path, path: Path, relative: PurePosixPath) -> Entry:
    status = path.lstat()
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return Entry(path, relative, None, mode, status.st_size)
    shown = f"{top.name}/{relative}"
    if not stat.S_ISLNK(mode):
        raise InvalidTaskError(f"{shown} is neither a file nor a folder")
    target = os.readlink(path)
    if os.path.isabs(target) or not path.resolve().is_relative_to(top.resolve()):
        raise InvalidTaskError(f"{shown} is a link that leaves {top.name}/, to {target!r}")
    return Entry(path, relative, target, mode)


def _matches(relative: PurePosixPath, patterns: Sequence[str]) -> bool:
    """``.gitignore`` rules: a slash at the beginning or inside anchors a pattern at the top."""
    for pattern in patterns:
        bare = pattern.rstrip("/")
        if bare.startswith("/") and "/" not in bare[1:]:
            if fnmatchcase(relative.parts[0], bare[1:]):
                return True
        elif bare.strip("/") and is_excluded(relative.parts, [bare.lstrip("/")]):
            return True
    return False


def _content_digest(entry: Entry) -> str:
    if entry.link is not None:
        return hashlib.sha256(f"link\0{entry.link}".encode("utf-8", "surrogateescape")).hexdigest()
    digest = hashlib.sha256()
    for piece in read_entry(entry):
        digest.update(piece)
    return digest.hexdigest()


def read_entry(entry: Entry) -> Iterator[bytes]:
    """The bytes of a file, in pieces. Raises ``InvalidTaskError``."""
    try:
        with _opened(entry.path) as stream:
            while piece := stream.read(_PIECE):
                yield piece
    except OSError as error:
        raise InvalidTaskError(f"{entry.relative} cannot be read: {error.strerror}") from None


def _opened(path: Path) -> BinaryIO:
    """A regular file, not through a link, and without waiting for a pipe's writer."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    stream = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        stream.close()
        raise OSError(errno.EINVAL, "not a regular file")
    return stream
