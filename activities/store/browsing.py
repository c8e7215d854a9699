"""Reading a run for showing it: every task, whatever state its record is in. Never raises for a record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ...contracts.errors import RecordError
from ...contracts.records import DamagedRecord, TaskRecord
from .legacy import UnclassifiedTask, read_task_for_display
from .state import TaskEntry
from .task_records import ERROR_PREFIX, TaskRecords, checked_record


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
    too_large: bool = False
    """True when there is nothing wrong with the record but its size."""

    @property
    def damage(self) -> DamagedRecord | None:
        """What is wrong with a record that cannot be read; one of an older version can be."""
        if not self.problem or self.too_large:
            return None
        return DamagedRecord(task_id=self.task_id, reason=self.problem)


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
    try:
        size = task.path.stat(follow_symlinks=False).st_size
        if max_bytes is not None and size > max_bytes:
            problem = f"{task.path.name} has {size / 1e6:.0f} MB, too much to be shown"
            return replace(task, problem=problem, too_large=True)
        return _with_record(task, task.path, read_task_for_display(task.path))
    except RecordError as error:
        return replace(task, problem=str(error).replace(f"{run_dir}/", ""))
    except OSError as error:  # it vanished, or may not be read
        return replace(task, problem=f"{task.path.name}: cannot be read: {error.strerror}")
    except RecursionError:
        return replace(task, problem=f"{task.path.name}: not a record: nested too deeply")


def _with_record(task: BrowsedTask, path: Path, record: TaskRecord | UnclassifiedTask) -> BrowsedTask:
    """Raises RecordError for the record of another task."""
    task_id = (
        record.task_id if task.index is None else task.task_id
    )  # without a list the record alone knows it
    if isinstance(record, TaskRecord):
        checked_record(record, path, task_id)
        category = record.category if task.index is None else task.category
        return replace(task, task_id=task_id, category=category, record=record)
    if record.task_id != task_id:
        raise RecordError(f"{path}: the record of another task, {record.task_id[:200]!r}")
    return replace(task, task_id=task_id, record=record)
