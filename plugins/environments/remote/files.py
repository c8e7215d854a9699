"""Reading, writing and copying files of a sandbox, from the worker's side. Everything here blocks."""

from __future__ import annotations

import io
import os
import posixpath
import stat
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

from ..shared import packing, unpacking
from ..shared.packing import Owner
from .shell import EXECUTIONS, LONGEST_VARIABLE, Shell

_SMALL = 64 * 1024
_COPY_SECONDS = 1800.0
_IN_MEMORY = 4 * 1024**2


def absolute(path: str, workdir: str) -> str:
    """A path of the sandbox. Raises ``ValueError`` for one with a NUL character."""
    if "\0" in path or not path:
        raise ValueError(f"{path!r} is not a usable path")
    return posixpath.normpath(posixpath.join(workdir, path))


def passing_name(kind: str) -> str:
    """A path inside for something on its way."""
    return f"{EXECUTIONS}/.{kind}-{uuid.uuid4().hex[:16]}"


def read_file(shell: Shell, path: str, max_bytes: int | None) -> bytes:
    """A file's bytes. Raises ``FileNotFoundError``; ``ValueError`` above ``max_bytes``; ``OSError``."""
    most = _SMALL if max_bytes is None else min(_SMALL, max_bytes)
    answer = shell.ask("get", path, str(most))
    match answer.words:
        case ["file", _]:
            _require_small(path, len(answer.rest), max_bytes)
            return answer.rest
        case ["large", size]:
            _require_small(path, int(size), max_bytes)
        case ["folder"]:
            raise IsADirectoryError(f"{path} is a folder")
        case ["none"]:
            raise FileNotFoundError(f"{path} does not exist in the environment")
        case _:
            raise OSError(f"{path} is not a regular file")
    content = bytearray()
    with shell.channel.receive(path) as pieces:
        for piece in pieces:
            content += piece
            _require_small(path, len(content), max_bytes)  # it may have grown
    return bytes(content)


def _require_small(path: str, size: int, max_bytes: int | None) -> None:
    if max_bytes is not None and size > max_bytes:
        raise ValueError(f"{path} is larger than {max_bytes} bytes")


def write_file(shell: Shell, path: str, data: bytes, mode: int) -> None:
    """Write a file, making its parent folders. A link at ``path`` itself is replaced, not followed."""
    if len(data) * 4 // 3 < LONGEST_VARIABLE:
        shell.ask("put", path, f"{mode:o}", data=data)
        return
    passing = passing_name("in")
    shell.channel.send(passing, io.BytesIO(data))
    shell.ask("put", path, f"{mode:o}", passing)


def upload(shell: Shell, source: Path, destination: str, stop: threading.Event) -> None:
    """Copy a local file to the path ``destination``, or merge a local tree into that folder."""
    if source.is_dir():
        folder, folders = destination, b"".join(name + b"\0" for name in _folders_below(source))
        content = packing.local_tree(source, ".", Owner(), stop)
    elif source.exists():
        folder, folders = posixpath.dirname(destination), b""
        content = packing.local_file(source.resolve(), posixpath.basename(destination), Owner(), stop)
    else:
        raise FileNotFoundError(f"{source} does not exist")
    archive, names = passing_name("archive"), passing_name("names")
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as packed:
        for piece in content:
            packed.write(piece)
        packed.write(packing.END)
        shell.channel.send(names, io.BytesIO(folders))
        shell.channel.send(archive, packed)  # type: ignore[arg-type]  # as good as a file
    shell.ask("unpack", folder, archive, names, seconds=_COPY_SECONDS)


def _folders_below(source: Path) -> Iterator[bytes]:
    """Relative names of all folders, the outermost first."""
    for folder, folders, _ in os.walk(source, followlinks=False):
        for name in folders:
            entry = os.path.join(folder, name)
            if stat.S_ISDIR(os.lstat(entry).st_mode):
                yield os.fsencode(os.path.relpath(entry, source))


def download(shell: Shell, source: str, destination: Path, stop: threading.Event) -> None:
    """Copy a file to the path ``destination``, or merge a tree into that folder."""
    passing = passing_name("archive")
    try:
        answer = shell.ask("pack", source, passing, seconds=_COPY_SECONDS)
        if answer.words == ["none"]:
            raise FileNotFoundError(f"{source} does not exist in the environment")
        if answer.words != ["packed"]:
            raise OSError(f"{source} is neither a file nor a folder")
        where = answer.rest.decode("utf-8", "surrogateescape")
        with shell.channel.receive(passing) as pieces:
            unpacking.receive(pieces, where, destination, stop)
    finally:
        shell.ask("discard", passing)
