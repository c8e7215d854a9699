"""CPU time and peak memory of processes, read from ``/proc`` (Linux only)."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

SAMPLE_SECONDS = 0.05
"""A process that leaves by itself is read for the last time at most this long before its end."""

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """What a process has used since it started."""

    cpu_seconds: float = 0.0
    """User and system time of all its threads."""
    peak_mb: float = 0.0
    """Highest resident set so far."""
    resident_mb: float = 0.0
    """Resident set at the time of reading."""


def read_usage(pid: int) -> Usage | None:
    """Usage of ``pid``, ``None`` when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    memory = dict(line.split(":", 1) for line in status.splitlines() if line.startswith("Vm"))
    if "VmHWM" not in memory:
        return None  # a zombie has no memory left to tell of
    return Usage(
        cpu_seconds=(int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND,
        peak_mb=_megabytes(memory["VmHWM"]),
        resident_mb=_megabytes(memory["VmRSS"]),
    )


def lives(pid: int) -> bool:
    """True while a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def started_with(variable: str, prefix: str) -> list[int]:
    """Living processes in whose initial environment ``variable`` begins with ``prefix``."""
    wanted = f"{variable}={prefix}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it ended while we looked, or is somebody else's
        if any(item.startswith(wanted) for item in variables) and lives(int(folder.name)):
            found.append(int(folder.name))
    return found


def kill_started_with(variable: str, prefix: str) -> None:
    """``kill -9`` of all of these, and of those that they start meanwhile."""
    while left := started_with(variable, prefix):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(SAMPLE_SECONDS)


def _megabytes(kilobytes: str) -> float:
    return int(kilobytes.split()[0]) / 1024


class ProcessWatch:
    """Keeps the last usage of a process that starts later and ends by itself."""

    def __init__(self, find_pid: Callable[[], int | None]) -> None:
        self._find_pid = find_pid
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._usage = Usage()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopped.set()
        self._thread.join()

    @property
    def usage(self) -> Usage:
        """The last one that could be read."""
        return self._usage

    def _watch(self) -> None:
        pid: int | None = None
        while not self._stopped.is_set():
            pid = pid or self._find_pid()
            found = read_usage(pid) if pid else None
            if found is not None:
                self._usage = found
            time.sleep(SAMPLE_SECONDS)
