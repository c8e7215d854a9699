"""Files of an environment, from the worker's side. Everything here blocks: call it in a thread."""

from __future__ import annotations

import os
import stat
import threading
import uuid
from pathlib import Path

from ..shared.tree_copy import Links, copy_file, copy_tree, open_regular
from .directory import EnvironmentDirectory


def read_file(directory: EnvironmentDirectory, path: str, max_bytes: int | None) -> bytes:
    """A file's bytes. Raises ``FileNotFoundError``; ``ValueError`` above ``max_bytes``."""
    with open_regular(directory.resolve(path)) as stream:
        if max_bytes is None:
            return stream.read()
        data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ValueError(f"{path} is larger than {max_bytes} bytes")
    return data


def write_file(directory: EnvironmentDirectory, path: str, data: bytes, mode: int) -> None:
    """Write a file as a whole: a reader sees the old content or the new one.

    A link at ``path`` itself is replaced, not followed.
    """
    target = directory.resolve(path, follow=False)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name[:100]}.{uuid.uuid4().hex[:8]}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            os.fchmod(stream.fileno(), mode)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink()
        raise


def upload(directory: EnvironmentDirectory, source: Path, destination: str, stop: threading.Event) -> None:
    """Copy a local file to the path ``destination``, or merge a local tree into that folder."""
    if not source.exists():
        raise FileNotFoundError(f"{source} does not exist")
    if source.is_dir():
        copy_tree(source, directory.resolve(destination), Links.AS_THEY_ARE, stop)
    else:
        copy_file(source.resolve(), directory.resolve(destination, follow=False), stop)


def download(directory: EnvironmentDirectory, source: str, destination: Path, stop: threading.Event) -> None:
    """Copy a file to the path ``destination``, or merge a tree into that folder."""
    found = directory.resolve(source)
    if stat.S_ISDIR(found.stat().st_mode):
        copy_tree(found, destination, Links.INSIDE_ONLY, stop)
    else:
        copy_file(found, destination, stop)
