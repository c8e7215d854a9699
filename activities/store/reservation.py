"""Reserving a run directory: one driver each, all or nothing."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import time
from datetime import datetime
from pathlib import Path

from ...contracts.errors import RecordError, RunDirectoryError
from .files import find_model, read_json, sync_directory, write_json_atomic
from .layout import run_id_at, run_path
from .state import DriverRecord

STATE_DIR = ".state"
_DRIVER = Path(STATE_DIR) / "driver.json"
_MAX_COLLISIONS = 3600
_BUILDING_PREFIX = ".reserving-"
_ABANDONED_SECONDS = 3600.0


def reserve_directory(path: Path, owner: DriverRecord, *, log_name: str = "") -> None:
    """Make ``path`` with its driver record, in one step, or take it as it is when ``owner`` made it before.

    Raises RunDirectoryError, having written nothing, when the directory belongs to another
    driver, holds a run that is over, or cannot be written.
    """
    made: list[Path] = []
    try:
        made = _make_parents(path.parent)
        if _create(path, owner, log_name):
            return
    except OSError as error:
        _remove_empty(made)
        reason = error.strerror or str(error)
        raise RunDirectoryError(f"the run directory {path} cannot be written: {reason}") from error
    _check_holder(path, owner)


def reserve_by_time(
    results_dir: Path, run_name: str, label: str, started_at: datetime, owner: DriverRecord
) -> Path:
    """Reserve the first free directory named after a time at or after ``started_at``.

    With the same start time a second call finds the directory that the first one made.
    """
    for collisions in range(_MAX_COLLISIONS):
        run_id = run_id_at(started_at, collisions)
        path = run_path(results_dir, run_name, label, run_id)
        try:
            reserve_directory(path, owner, log_name=run_id)
        except RunDirectoryError:
            if not path.exists():
                raise  # cannot be written: a later name would not help
            continue
        return path
    raise RunDirectoryError(f"every run id from {run_id_at(started_at)} on is taken; give one with --run-id")


def discard_reservation(path: Path, owner: DriverRecord) -> None:
    """Remove the run directory that ``owner`` reserved and has not begun to use, and what it alone needed."""
    holder = driver_of(path)
    if holder is None or not holder.same_driver(owner):
        return
    leaving = path.parent / f"{_BUILDING_PREFIX}{os.getpid()}-{secrets.token_hex(6)}"
    os.rename(path, leaving)  # in one step: nobody finds the half of a run
    shutil.rmtree(leaving, ignore_errors=True)  # what stays is removed with the abandoned
    _remove_empty([path.parent])


def discard_reservations(directory: Path, owner: DriverRecord) -> None:
    """Remove what ``owner`` reserved in ``directory``, by whichever name."""
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        if path.is_dir() and not path.name.startswith("."):
            with contextlib.suppress(RecordError):  # whose that is cannot be told, so it stays
                discard_reservation(path, owner)


def driver_of(path: Path) -> DriverRecord | None:
    """Who reserved ``path``; ``None`` when it is not a run directory of this program."""
    return find_model(path / _DRIVER, DriverRecord)


def list_runs(directory: Path) -> list[Path]:
    """The run directories in ``directory``, the one that started last first; one with a broken ``run_info.json`` is left out."""
    found: list[tuple[str, str, Path]] = []
    for path in directory.iterdir() if directory.is_dir() else ():
        if path.name.startswith(".") or not path.is_dir():
            continue
        try:
            info = read_json(path / "run_info.json")
        except RecordError:
            continue  # nothing can be taken over from it
        if isinstance(info, dict):
            found.append((str(info.get("started_at", "")), path.name, path))
    return [path for _, _, path in sorted(found, reverse=True)]


def _create(path: Path, owner: DriverRecord, log_name: str) -> bool:
    """Build the directory beside its place and rename it there; False when the place is taken."""
    _remove_abandoned(path.parent)
    building = path.parent / f"{_BUILDING_PREFIX}{os.getpid()}-{secrets.token_hex(6)}"
    building.mkdir()
    try:
        write_json_atomic(building / _DRIVER, owner, durable=True)
        (building / "logs").mkdir()
        (building / "logs" / f"{log_name or run_id_at(datetime.now())}.log").touch()
        try:
            os.rename(building, path)
        except OSError as error:
            # A rename onto an empty directory succeeds; onto a run it fails with one of these.
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                return False
            raise
        sync_directory(path.parent)
        return True
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _remove_abandoned(directory: Path) -> None:
    """Remove what a process left that was killed while it reserved."""
    for path in directory.glob(f"{_BUILDING_PREFIX}*"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _check_holder(path: Path, owner: DriverRecord) -> None:
    try:
        holder = driver_of(path)
    except RecordError as error:
        raise RunDirectoryError(
            f"the run directory {path} exists, and its driver is unreadable: {error}"
        ) from error
    if holder is None:
        raise RunDirectoryError(f"{path} exists already and is not empty; choose another --run-id")
    info = read_json(path / "run_info.json")
    if isinstance(info, dict) and info.get("finished_at"):
        raise RunDirectoryError(
            f"the run directory {path} holds a run that is over ({info.get('status') or 'no status'}); "
            f"choose another --run-id, and take over what it has finished with --reuse={path.name}"
        )
    if not holder.same_driver(owner):
        who = f"launch {holder.launch_id!r}, request {holder.request_key!r}"
        where = f" (started {holder.reserved_at} on {holder.host})" if holder.host else ""
        raise RunDirectoryError(
            f"the run directory {path} is held by {who}{where}, which is not over; choose another --run-id, "
            f"or go on with: agentcompass attach {holder.launch_id}"
        )


def _make_parents(directory: Path) -> list[Path]:
    """Make ``directory``; returns what had to be made, innermost first."""
    missing: list[Path] = []
    level = directory
    while not level.exists() and level != level.parent:
        missing.append(level)
        level = level.parent
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        _remove_empty(missing)
        raise
    return missing


def _remove_empty(directories: list[Path]) -> None:
    for directory in directories:
        with contextlib.suppress(OSError):  # never made, or in use by someone else by now
            directory.rmdir()
