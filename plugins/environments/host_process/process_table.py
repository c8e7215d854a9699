"""The processes of this machine, and how one is told from a later one with the same id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LINUX = sys.platform.startswith("linux")
_GONE = frozenset("ZX")
"""States of a process that has ended: only its exit status is left."""


@dataclass(frozen=True)
class ProcessIdentity:
    """A process id and when it started; no two processes ever share both."""

    pid: int
    start: str
    """Linux: boot id and clock ticks since boot. Elsewhere: the start time that ``ps`` shows."""

    def __str__(self) -> str:
        return f"{self.pid} {self.start}"

    @classmethod
    def parse(cls, text: str) -> ProcessIdentity:
        """The inverse of ``str``. Raises ``ValueError``."""
        pid, _, start = text.partition(" ")
        return cls(int(pid), start)


@dataclass(frozen=True)
class ProcessInfo:
    """A living process at the moment of a snapshot; zombies are not listed."""

    identity: ProcessIdentity
    parent: int
    group: int
    session: int
    has_terminal: bool
    text: str = ""
    """Command line with environment, where only ``ps`` tells it."""


def identity_of(pid: int) -> ProcessIdentity | None:
    """The living process with this id, ``None`` when there is none."""
    found = _from_proc(pid) if LINUX else next(iter(_from_ps(["-p", str(pid)])), None)
    return found.identity if found else None


def is_alive(identity: ProcessIdentity) -> bool:
    """True while exactly this process runs."""
    return identity_of(identity.pid) == identity


def snapshot() -> list[ProcessInfo]:
    """All living processes that can be seen."""
    if not LINUX:
        return _from_ps(["-A"])
    entries = (_from_proc(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [entry for entry in entries if entry is not None]


def send_signal(identity: ProcessIdentity, number: signal.Signals) -> None:
    """Signal exactly this process; nothing happens when it is gone.

    Raises ``PermissionError`` when it runs as another user.
    """
    try:
        if not hasattr(os, "pidfd_open"):
            if is_alive(identity):
                os.kill(identity.pid, number)
            return
        # The descriptor stands for whatever has the id now; checked afterwards, it cannot change.
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return
    try:
        if is_alive(identity):
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)


@cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _from_proc(pid: int) -> ProcessInfo | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as stream:
            line = stream.read().decode("ascii", "replace")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The command's name may hold spaces and parentheses: count from the last one. What follows is
    # state, parent, group, session, terminal, … and, as the 20th, the start time.
    fields = line.rpartition(")")[2].split()
    if fields[0] in _GONE:
        return None
    return ProcessInfo(
        identity=ProcessIdentity(pid, f"{_boot_id()}:{fields[19]}"),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        has_terminal=fields[4] != "0",
    )


def _from_ps(selection: list[str]) -> list[ProcessInfo]:
    columns = "pid=,ppid=,pgid=,state=,tty=,lstart=,command="
    with_environment = ["-E"] if sys.platform == "darwin" else []
    answer = subprocess.run(
        ["ps", *selection, *with_environment, "-ww", "-o", columns],
        capture_output=True,
        check=False,  # ps fails when the one process asked for does not exist
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
    )
    lines = answer.stdout.decode("utf-8", "surrogateescape").splitlines()
    return [info for info in map(_parse_ps_line, lines) if info is not None]


def _parse_ps_line(line: str) -> ProcessInfo | None:
    # lstart has five words: "Thu Jan  1 00:00:00 2026".
    words = line.split(None, 10)
    if len(words) < 10 or words[3][0] in _GONE:
        return None
    return ProcessInfo(
        identity=ProcessIdentity(int(words[0]), " ".join(words[5:10])),
        parent=int(words[1]),
        group=int(words[2]),
        session=0,
        has_terminal=words[4] not in ("?", "??", "-"),
        text=words[10] if len(words) > 10 else "",
    )
