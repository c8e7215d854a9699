"""Runs one detached command and records how it ended. Executed as a script; imports nothing of ours.

``supervisor.py FOLDER LOCK``: the command comes as JSON on standard input, so that neither it nor
its variables show in a process list or on disk. LOCK is a descriptor whose lock is held until the
record is written. "started" on standard output means that the command is running or has failed by
itself. It outlives the worker: it has left its session, and was given up by its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
FAST_WRITER_BYTES_PER_SECOND = 4 * 1024**3
STATUS_TRIES = 60


def main() -> None:
    """Detach, record, run, wait, record."""
    folder, lock = sys.argv[1], int(sys.argv[2])
    command = json.loads(sys.stdin.buffer.read())  # cut short when the worker died: nothing is started
    if os.fork():
        os._exit(0)
    os.setsid()
    os.chdir("/")
    # Whoever ends the command ends it, not its supervisor, which has the status to write.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    become_subreaper()
    wake = wake_on_child_exit()
    started_at = time.time()
    record = {"supervisor": identity(os.getpid()), "command": None, "started_at": started_at}
    write_atomically(f"{folder}/record.json", record)
    os.close(lock)
    child = spawn(folder, command)
    write_atomically(f"{folder}/record.json", record | {"command": identity(child)})
    with contextlib.suppress(BrokenPipeError):  # the worker died; the command goes on
        os.write(1, b"started")
    silence()
    returncode, exceeded = follow(child, folder, command["max_output_bytes"], wake)
    status = {"returncode": returncode, "output_limit_exceeded": exceeded}
    write_status(folder, status)


def spawn(folder: str, command: dict[str, Any]) -> int:
    """Start the command in a session of its own."""
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        os.umask(0o022)
        for number, name in ((1, "stdout"), (2, "stderr")):
            opened = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(opened, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, programs count on them
            signal.signal(number, signal.SIG_DFL)
        os.chdir(command["folder"])
        os.execvpe(command["arguments"][0], command["arguments"], command["variables"])
    except OSError as error:
        name = error.filename or command["arguments"][0]
        os.write(2, os.fsencode(f"{name}: {error.strerror}\n"))
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    except BaseException:
        os._exit(126)  # never back into the supervisor's code in a second process


def follow(child: int, folder: str, max_bytes: int, wake: int) -> tuple[int, bool]:
    """Wait for the command, reap what it orphaned, and end it when it writes too much."""
    exceeded = False
    while True:
        status = reap(child)
        if status is not None:
            return os.waitstatus_to_exitcode(status), exceeded
        left = max_bytes - max(size(f"{folder}/{name}") for name in ("stdout", "stderr"))
        if left < 0:
            exceeded = True
            kill_all_below(child)
            for name in ("stdout", "stderr"):
                with contextlib.suppress(FileNotFoundError):
                    os.truncate(f"{folder}/{name}", min(max_bytes, size(f"{folder}/{name}")))
        pause = 0.02 if exceeded else min(1.0, max(0.02, left / FAST_WRITER_BYTES_PER_SECOND))
        if select.select([wake], [], [], pause)[0]:
            os.read(wake, 4096)


def reap(child: int) -> int | None:
    """The wait status of ``child`` when it has ended; other ended children are only reaped."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == child:
            return status
        if pid == 0:
            return None


def kill_all_below(child: int) -> None:
    """Kill the command's group and, where /proc tells, everything that descends from this process or bears its marks.

    Orphans have another parent where the environment has a process table of its own.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    parents = {pid: fields[1] for pid in processes() if (fields := stat_fields(pid))}
    below = {os.getpid()}
    while found := {pid for pid, parent in parents.items() if int(parent) in below and pid not in below}:
        below |= found
    for pid in (below | {pid for pid in parents if has_our_marks(pid)}) - {os.getpid()}:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def has_our_marks(pid: int) -> bool:
    """Whether a process was started with the variables that mark this command."""
    ours = {
        f"{name}={value}".encode() for name, value in os.environ.items() if name.startswith("AGENTCOMPASS_")
    }
    try:
        with open(f"/proc/{pid}/environ", "rb") as stream:
            return bool(ours) and ours <= set(stream.read().split(b"\0"))
    except OSError:  # gone, or another user's
        return False


def processes() -> list[int]:
    """Ids of all processes; none where there is no /proc."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except FileNotFoundError:
        return []


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; none when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            return stream.read().decode("ascii", "replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def identity(pid: int) -> str:
    """Process id and start time, as ``ProcessIdentity`` writes them."""
    fields = stat_fields(pid)
    if fields:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            return f"{pid} {stream.read().strip()}:{fields[19]}"
    with os.popen(f"LC_ALL=C ps -o lstart= -p {pid}") as answer:  # no /proc, for example on macOS
        return f"{pid} {' '.join(answer.read().split())}"


def become_subreaper() -> None:
    """Be the parent of what the command's children orphan, where the system can (Linux)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def wake_on_child_exit() -> int:
    """A descriptor that becomes readable when a child ends."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reader


def silence() -> None:
    """Let go of the worker's pipes."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)


def size(path: str) -> int:
    """Bytes of a file, 0 when it is not there."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def write_status(folder: str, status: dict[str, Any]) -> None:
    """Write the status; again for a minute, as a full disk may be what ended the command."""
    for _ in range(STATUS_TRIES):
        try:
            write_atomically(f"{folder}/status.json", status)
            return
        except FileNotFoundError:
            return  # the environment was removed
        except OSError:
            time.sleep(1)


def write_atomically(path: str, value: dict[str, Any]) -> None:
    """A reader sees the old file or the new one."""
    temporary = f"{path}.new"
    with open(temporary, "w", encoding="utf-8") as stream:
        json.dump(value, stream)
    os.replace(temporary, path)


if __name__ == "__main__":
    main()
