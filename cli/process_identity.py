"""Tell a process that we started from a stranger that was given the same process id."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_children: set[int] = set()
"""Processes started by this one: a dead child stays a zombie until its parent collects it."""


def disown(process: subprocess.Popen[bytes]) -> None:
    """Let a child outlive this process without a warning, and be collected should it die before."""
    _children.add(process.pid)
    # Otherwise Popen warns at exit that the child still runs, which is what it is meant to do.
    process.returncode = 0


def start_marker(pid: int) -> str | None:
    """Return a text that no other process with this id has had, or None if none runs.

    On Linux it is the boot id and the start time in clock ticks: ticks alone repeat after a
    reboot. Elsewhere it is the start time that `ps` reports, to the second.
    """
    has_proc = Path("/proc/self/stat").exists()
    marker = _marker_from_proc(pid) if has_proc else _marker_from_ps(pid)
    if marker is None and pid in _children:
        _collect(pid)
    return marker


def is_same_process(pid: int | None, marker: str | None) -> bool:
    """Whether the process that had `marker` when it was recorded still runs as `pid`."""
    return pid is not None and marker is not None and start_marker(pid) == marker


def _collect(pid: int) -> None:
    try:
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            _children.discard(pid)
    except ChildProcessError:
        _children.discard(pid)


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
