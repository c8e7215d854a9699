"""A process table for each environment, where the system lets us make one (Linux).

What runs inside sees no process of the machine: ``pkill -f python`` and ``kill -9 -1`` reach what belongs to
the environment and nothing else, also as root. Files, network and users stay the machine's.

A *holder* is the first process in there. It adopts and reaps orphans, no signal from inside ends it, and with it
the kernel ends all others. It is started with the environment's first command and outlives its worker.
"""

from __future__ import annotations

import fcntl
import functools
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .directory import EnvironmentDirectory
from .membership import Scope, has_variables
from .process_table import LINUX, ProcessIdentity, is_alive, send_signal, snapshot

_SECONDS = 15.0
_FIRST_IDS = range(1000, 30_000)
# Orphans are reaped by the kernel when their adopter ignores SIGCHLD. Ids begin anywhere, so that names such as
# /tmp/x.$$ of two environments differ as they do on one machine; without the right to say so they begin at 2.
_HOLD = """
{ echo "$1" >/proc/sys/kernel/ns_last_pid; } 2>/dev/null
echo ready
exec env --ignore-signal=CHLD sleep infinity >/dev/null 2>&1
"""


class NoProcessSpaceError(OSError):
    """This machine gave an environment no process table of its own; the message says what it answered."""


@dataclass(frozen=True)
class ProcessSpace:
    """The process table of one environment. Its methods block for some milliseconds."""

    directory: EnvironmentDirectory

    def entered(self, arguments: list[str], folder: str) -> list[str]:
        """The arguments that run a command inside, in ``folder``. Starts the holder.

        Raises ``NoProcessSpaceError``.
        """
        if "=" in arguments[0]:  # env would take it for a variable
            arguments = ["/bin/sh", "-c", 'exec "$@"', "sh", *arguments]
        # Not a shell to change the folder: it would change variables, too.
        return [*_nsenter(self.holder or self._start()), _program("env"), "-C", folder, "--", *arguments]

    @property
    def holder(self) -> ProcessIdentity | None:
        """The living holder; ``None`` before the first command and after the end of all processes."""
        try:
            found = ProcessIdentity.parse(self._record.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):  # not there, or spoiled from inside
            return None
        # A record that was spoiled from inside names nothing but what belongs to the environment anyway.
        return found if is_alive(found) and has_variables(found.pid, self._markers) else None

    @property
    def _markers(self) -> dict[str, str]:
        return Scope(self.directory.environment_id, self.directory.path, self.directory.proc).markers

    @property
    def _record(self) -> Path:
        return self.directory.proc / "space"

    def _start(self) -> ProcessIdentity:
        with (self.directory.proc / "space.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = self.holder
            if found is not None:  # of somebody who was faster
                return found
            self.directory.touch()
            holder = _started(self._markers)
            temporary = self._record.with_suffix(".new")
            temporary.write_text(str(holder), encoding="ascii")
            os.replace(temporary, self._record)
            return holder


@functools.cache
def why_unavailable() -> str | None:
    """Why environments of this machine share its process table; ``None`` when they do not. Blocks once."""
    if not LINUX:
        return "only Linux has process tables of their own"
    try:
        holder = _started({})
    except NoProcessSpaceError as error:
        return str(error)
    try:
        command = [*_nsenter(holder), _program("env"), "-C", "/", "--", "true"]
        tried = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
        said = tried.stderr.decode("utf-8", "replace").strip()
        return None if tried.returncode == 0 else said or f"nsenter ended with status {tried.returncode}"
    finally:
        send_signal(holder, signal.SIGKILL)


def _started(markers: Mapping[str, str]) -> ProcessIdentity:
    """A new holder, which belongs to nobody. Raises ``NoProcessSpaceError``."""
    command = [_program("unshare"), "--pid", "--mount", "--fork", "--mount-proc"]
    command[1:1] = ["--user", "--map-current-user", "--keep-caps"] if os.geteuid() else []
    parent = subprocess.Popen(
        [*command, "/bin/sh", "-c", _HOLD, "sh", str(random.choice(_FIRST_IDS))],
        cwd="/",
        env={"PATH": os.environ.get("PATH", os.defpath), **markers},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert parent.stdout is not None and parent.stderr is not None
    with parent.stdout, parent.stderr:
        ready = parent.stdout.readline() == b"ready\n"
        holder = next((info.identity for info in snapshot() if info.parent == parent.pid), None)
        parent.kill()  # it only waits for the holder
        said = b"" if ready else parent.stderr.read()
        parent.wait()
    if not ready or holder is None:
        text = said.decode("utf-8", "replace").strip()
        raise NoProcessSpaceError(text.splitlines()[-1] if text else "unshare ended before it was done")
    return holder


def _nsenter(holder: ProcessIdentity) -> list[str]:
    user = ["--user", "--preserve-credentials"] if os.geteuid() else []
    return [_program("nsenter"), "--target", str(holder.pid), *user, "--pid", "--mount", "--"]


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise NoProcessSpaceError(f"the program {name} is not installed")
    return found
