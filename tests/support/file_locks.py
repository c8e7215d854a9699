"""Hold a lock that the product wants, and know when it stands there (Linux: ``/proc/locks``)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from command_line import wait_for


@contextmanager
def held(path: Path) -> Iterator[int]:
    """Hold the lock of ``path``; gives the inode by which :func:`is_wanted` knows it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)


@contextmanager
def all_held(paths: list[Path]) -> Iterator[list[int]]:
    """Hold several locks."""
    with ExitStack() as stack:
        yield [stack.enter_context(held(path)) for path in paths]


def wait_until_wanted(inodes: list[int]) -> None:
    """Return when a process waits for one of the locks."""
    wait_for("a process that wants the lock", lambda: any(map(is_wanted, inodes)))


def is_wanted(inode: int) -> bool:
    """Whether a process waits for the lock of the file with this inode."""
    waiting = (line for line in Path("/proc/locks").read_text().splitlines() if "->" in line)
    return any(f":{inode} " in line for line in waiting)
