"""Reading a run for showing it: every task, whatever state its record is in. Never raises for a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ...contracts.errors import RecordError
from ...contracts.records import TaskRecord
from .legacy import UnclassifiedTask, read_task_for_display
from .state import TaskEntry
from .task_records import ERROR_PREFIX, TaskRecords


@dataclass(frozen=True)
class BrowsedTask:
    """One task as far as it can be read."""

    task_id: str
    category: str
    index: int | None = None
    """In the task list; ``None`` when the run has none."""
    digest: str = ""
    """Of the task's content, in hex; empty without a task list."""
    path: Path | None = None
    """Its record file; ``None`` for a task that is not finished."""
    record: TaskRecord | UnclassifiedTask | None = None
    problem: str = ""
    """Why there is a file but no record."""


def browse(
    entries: tuple[TaskEntry, ...] | None, records: TaskRecords, run_dir: Path, max_bytes: int | None
) -> Iterator[BrowsedTask]:
    """Every entry of the task list, or, without a list, every record file; one record in memory at a time.

    A record of more than ``max_bytes`` is named, but not read.
    """
    if entries is None:
        for path in records.paths():
            stem = path.stem.removeprefix(ERROR_PREFIX)
            yield _read(BrowsedTask(stem, "", path=path), run_dir, max_bytes)
        return
    for entry in entries:
        file = records.path(entry.task_id)
        task = BrowsedTask(entry.task_id, entry.category, entry.index, entry.digest, file)
        yield _read(task, run_dir, max_bytes)


def _read(task: BrowsedTask, run_dir: Path, max_bytes: int | None) -> BrowsedTask:
    if task.path is None:
        return task
    record, problem = _record(task.path, run_dir, max_bytes)
    task_id, category = task.task_id, task.category
    if record is not None and task.index is None:  # the record alone knows the id
        task_id = record.task_id
        category = record.category if isinstance(record, TaskRecord) else ""
    elif record is not None and record.task_id != task.task_id:
        problem = f"{task.path.name}: the record of another task, {record.task_id[:200]!r}"
        record = None
    return replace(task, task_id=task_id, category=category, record=record, problem=problem)


def _record(
    path: Path, run_dir: Path, max_bytes: int | None
) -> tuple[TaskRecord | UnclassifiedTask | None, str]:
    try:
        size = path.stat(follow_symlinks=False).st_size
        if max_bytes is not None and size > max_bytes:
            return None, f"{path.name} has {size / 1e6:.0f} MB, too much to be shown"
        return read_task_for_display(path), ""
    except RecordError as error:
        return None, str(error).replace(f"{run_dir}/", "")
    except OSError as error:  # it vanished, or may not be read
        return None, f"{path.name}: cannot be read: {error.strerror}"
    except RecursionError:
        return None, f"{path.name}: not a record: nested too deeply"
