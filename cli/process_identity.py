"""Tell a process that we started from a stranger that was given the same process id."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_children: dict[int, subprocess.Popen[bytes]] = {}
"""Processes started by this one. Kept because a dead child stays a zombie, which looks alive
to others, until its parent asks for its exit code."""


def remember_child(process: subprocess.Popen[bytes]) -> None:
    """Let `start_marker` collect the exit code of a child that this process started."""
    _children[process.pid] = process


def start_marker(pid: int) -> str | None:
    """Return a text that no other process with this id has had, or None if none runs.

    On Linux it is the boot id and the start time in clock ticks: ticks alone repeat after a
    reboot. Elsewhere it is the start time that `ps` reports, to the second.
    """
    child = _children.get(pid)
    if child is not None and child.poll() is not None:
        del _children[pid]
    if Path("/proc/self/stat").exists():
        return _marker_from_proc(pid)
    return _marker_from_ps(pid)


def is_same_process(pid: int | None, marker: str | None) -> bool:
    """Whether the process that had `marker` when it was recorded still runs as `pid`."""
    return pid is not None and marker is not None and start_marker(pid) == marker


def _marker_from_proc(pid: int) -> str | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
    # The second field is the command in parentheses and may itself contain spaces and
    # parentheses, so count from the last one: state is then the first, starttime the 20th.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else f"{boot_id}:{fields[19]}"


def _marker_from_ps(pid: int) -> str | None:
    try:
        answer = subprocess.run(
            ["ps", "-o", "state=,lstart=", "-p", str(pid)],
            capture_output=True,
            text=True,
            check=False,
            timeout=5,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    state, _, started = answer.stdout.strip().partition(" ")
    return None if not started or state.startswith("Z") else started.strip()
