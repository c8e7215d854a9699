"""Folders, disks, file locks and limits of this machine."""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from .finding import Finding, failed, ok, warning

AREA = "machine"
FULL_BYTES = 200 * 1024**2
LOW_BYTES = 2 * 1024**3
LOW_INODES = 10_000
LOW_OPEN_FILES = 1024
"""A worker with 32 attempts at a time opens a few hundred files and connections."""

_NETWORK_SYSTEMS = ("nfs", "cifs", "smb", "fuse", "9p", "lustre", "ceph", "gpfs", "afs")


def check_folder(name: str, folder: Path) -> list[Finding]:
    """Whether ``folder`` can be written, has room, and can lock files. It is not created."""
    nearest = existing(folder)
    shown = str(folder) if nearest == folder else f"{folder} (would be made in {nearest})"
    if not nearest.is_dir():
        return [
            failed(AREA, name, f"{nearest} is not a directory", f"move it away, or choose another {name}")
        ]
    findings = [_room(name, nearest, shown)]
    try:
        with _probe(nearest) as path:
            findings.append(_locks(name, path, nearest))
    except OSError as error:
        advice = f"make it writable for this user, or choose another {name}"
        findings.append(failed(AREA, f"{name}, writing", f"{nearest}: {error.strerror}", advice))
    return findings


def existing(path: Path) -> Path:
    """``path``, or the nearest folder above it that exists."""
    level = path.absolute()
    while not level.exists() and level != level.parent:
        level = level.parent
    return level


def check_open_files() -> Finding:
    """The limit of open files of processes started from here."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    shown = "unlimited" if soft == resource.RLIM_INFINITY else str(soft)
    if soft != resource.RLIM_INFINITY and soft < LOW_OPEN_FILES:
        most = "unlimited" if hard == resource.RLIM_INFINITY else str(hard)
        advice = f"before a run: ulimit -n {LOW_OPEN_FILES * 4} (at most {most} here)"
        return warning(AREA, "open files", f"at most {shown}", advice)
    return ok(AREA, "open files", f"at most {shown}")


def _room(name: str, folder: Path, shown: str) -> Finding:
    usage = shutil.disk_usage(folder)
    inodes = os.statvfs(folder)
    text = f"{shown}: {usage.free / 1024**3:.1f} of {usage.total / 1024**3:.1f} GiB free"
    advice = "make room, or choose a folder on another disk"
    if usage.free < FULL_BYTES:
        return failed(AREA, name, text, advice)
    if usage.free < LOW_BYTES:
        return warning(AREA, name, text, advice)
    if inodes.f_files and inodes.f_favail < LOW_INODES:
        return warning(AREA, name, f"{text}, but only {inodes.f_favail} more files", advice)
    return ok(AREA, name, text)


@contextlib.contextmanager
def _probe(folder: Path) -> Iterator[Path]:
    """A file of our own in ``folder``, gone afterwards. Raises OSError where none can be made."""
    path = folder / f".tmp-doctor-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        with open(path, "xb") as file:
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
        yield path
    finally:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


def _locks(name: str, path: Path, folder: Path) -> Finding:
    """Whether a lock that one descriptor holds keeps another one out, as the run store needs it."""
    system = _file_system(folder)
    label = f"{name}, writing"
    advice = "choose a folder on a file system with flock"
    with open(path, "rb") as one, open(path, "rb") as two:
        try:
            fcntl.flock(one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return failed(AREA, label, f"files cannot be locked ({system}): {error.strerror}", advice)
        try:
            fcntl.flock(two, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # as it should be
        else:
            return failed(AREA, label, f"a locked file can be locked again ({system})", advice)
    if system.startswith(_NETWORK_SYSTEMS):
        text = f"can be written and locked here; on {system} a lock may not hold between hosts"
        return warning(
            AREA, label, text, "for workers on several machines, test it, or use a local disk for each"
        )
    return ok(AREA, label, f"can be written and locked ({system})")


def _file_system(folder: Path) -> str:
    """The type of the file system, as ``ext4``; what cannot be told is ``unknown file system``."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "unknown file system"
    real, best, found = str(folder.resolve()), -1, "unknown file system"
    for line in lines:
        fields, _, rest = line.partition(" - ")
        point = fields.split(" ")[4].replace("\\040", " ")
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, found = len(point), rest.split(" ")[0]
    return found
