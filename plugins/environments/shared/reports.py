"""What the supervisor of a command reports: see ``report`` in common.sh."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ....contracts.environment import Output

KEPT_BYTES = 64 * 1024
"""Bytes kept of each end of a stream."""
_REPORT = re.compile(r"report (\d{1,3}) ([01]) ([01]) (\d{1,18}) (\d{1,18})")


@dataclass(frozen=True)
class Report:
    """How a command ended, as its supervisor tells."""

    returncode: int
    exceeded: bool
    out_of_memory: bool
    stdout: Output
    stderr: Output


def parsed_report(line: str) -> list[int] | None:
    """Status, output limit, lack of memory, and the sizes of both streams; ``None`` for another line."""
    found = _REPORT.fullmatch(line.strip())
    return [int(word) for word in found.groups()] if found else None


def transferred(size: int) -> int:
    """How many bytes of a stream of ``size`` a report holds: see ``ends`` in common.sh."""
    if size <= KEPT_BYTES:
        return size
    return KEPT_BYTES + size - _tail_block(size) * KEPT_BYTES


def output_of(data: bytes, size: int, path: str) -> Output:
    """A stream from its part in a report."""
    tail = min(max(size - KEPT_BYTES, 0), KEPT_BYTES)
    return Output(
        head=data[: min(size, KEPT_BYTES)], tail=data[len(data) - tail :], total_bytes=size, path=path
    )


def _tail_block(size: int) -> int:
    return (size - min(size - KEPT_BYTES, KEPT_BYTES)) // KEPT_BYTES
