"""Output that lies in files: how it is bounded and shown."""

from __future__ import annotations

import os
from pathlib import Path

from ....contracts.environment import Output

KEPT_BYTES = 64 * 1024
"""Bytes kept in memory from the start, and as many from the end."""

_ASSUMED_BYTES_PER_SECOND = 4 * 1024**3
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


def captured_output(path: Path) -> Output:
    """Head and tail of a finished stream."""
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        head = stream.read(KEPT_BYTES)
        stream.seek(max(len(head), size - KEPT_BYTES))
        # Not to the end: a process left in the background may still be writing.
        tail = stream.read(max(0, size - stream.tell()))
    return Output(head=head, tail=tail, total_bytes=max(size, len(head)), path=str(path))


def cut(path: Path, max_bytes: int) -> None:
    """Shorten a file that outran its limit."""
    if path.stat().st_size > max_bytes:
        os.truncate(path, max_bytes)


def pause_before_check(paths: tuple[Path, ...], max_bytes: int) -> float | None:
    """Seconds until the sizes must be looked at again; ``None`` when one is above ``max_bytes``.

    As long as the fastest writer would need to reach the limit, within 20 ms and 0.5 s.
    """
    left = max_bytes - max(path.stat().st_size for path in paths)
    if left < 0:
        return None
    return min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, left / _ASSUMED_BYTES_PER_SECOND))
