"""The file that a report is written to: complete or not there, and never over somebody else's."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ...contracts.errors import UsageError
from ..store.files import TEMPORARY_PREFIX

REPORT_NAME = "report.html"
GENERATOR = "AgentCompass report"
"""Every report says so in its first lines; this is how it knows its own files again."""

_HEAD_BYTES = 2048


def check_target(path: Path) -> None:
    """Raise ``UsageError`` unless ``path`` is free, or holds a report of this program."""
    if not os.path.lexists(path):
        return
    if path.is_dir():
        raise UsageError(f"{path} is a directory; name a file with --output")
    if path.is_symlink() or not path.is_file():
        raise UsageError(f"{path} is no plain file; choose another one with --output")
    try:
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise UsageError(f"{path} exists and cannot be read: {error.strerror}") from error
    if f'content="{GENERATOR}"'.encode() not in head:
        raise UsageError(f"{path} exists and is no report of this program; choose another file with --output")


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of ``path`` when the block ends well, and is gone otherwise.

    Raises ``UsageError`` when nothing can be written there.
    """
    temporary = path.parent / f"{TEMPORARY_PREFIX}{os.getpid()}-{secrets.token_hex(6)}"
    try:
        with open(temporary, "xb") as file:
            yield file
        os.replace(temporary, path)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            f"the report {path} cannot be written: {reason}; name another file with --output"
        ) from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
