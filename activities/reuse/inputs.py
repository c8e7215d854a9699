"""What an unscored execution needs besides its records: collected files, and local files it names."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from ...contracts.task import PreparedTask
from ..artifacts.digest import content_of

_ARTIFACTS = "artifacts/"
_INPUTS = "inputs/"


def artifact_digests(directory: Path) -> dict[str, str]:
    """sha256 of everything in an execution's artifact directory, by ``artifacts/<name>``.

    Raises ``OSError`` when something there is neither file, folder nor link.
    """
    if not directory.is_dir():
        return {}
    return {f"{_ARTIFACTS}{path.name}": _content(path) for path in sorted(directory.iterdir())}


def input_digests(prepared: PreparedTask) -> dict[str, str]:
    """sha256 of every local file that the input of a task names, by ``inputs/<path>``.

    Raises ``OSError`` when one is missing or no regular file.
    """
    paths = sorted({item.path for item in prepared.input.media if item.path})
    return {f"{_INPUTS}{path}": _sha256(path) for path in paths if os.path.isabs(path)}


def changed_files(digests: dict[str, str], directory: Path, prepared: PreparedTask) -> str:
    """The first file that is not what ``digests`` say, with what is wrong; empty when all are."""
    try:
        found = {**artifact_digests(directory), **input_digests(prepared)}
    except OSError as error:
        return f"a file it needs cannot be read: {error}"
    recorded = {name: value for name, value in digests.items() if name.startswith((_ARTIFACTS, _INPUTS))}
    for name in sorted(recorded.keys() | found.keys()):
        if recorded.get(name) != found.get(name):
            word = (
                "is missing" if name not in found else "was added" if name not in recorded else "has changed"
            )
            return f"{name} {word}"
    return ""


def _content(path: Path) -> str:
    mode = path.lstat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise OSError(f"{path} is neither a file nor a folder")
    return content_of(path).sha256


def _sha256(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no regular file")
        return hashlib.file_digest(file, "sha256").hexdigest()
