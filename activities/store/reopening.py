"""Finished tasks that an operator has executed again: what is noted of them, and which ones they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...contracts.activities import PendingTask, RequeuedTasks, RequeueFailedInput
from ...contracts.errors import RecordError
from ...contracts.issues import Severity
from .files import find_model
from .layout import task_file_stem
from .state import ReopenedTask
from .task_records import worst_severity
from .writer import MaskingWriter

if TYPE_CHECKING:
    from .run_store import RunStore, SuccessOf


class ReopenedTasks:
    """``.state/reopened/<task>.json``: one small file a task."""

    def __init__(self, directory: Path, writer: MaskingWriter) -> None:
        self._directory = directory
        self._writer = writer

    def find(self, task_id: str) -> ReopenedTask | None:
        """What became of a task before it was executed again; ``None`` when it never was."""
        return find_model(self._path(task_id), ReopenedTask)

    def note(self, task_id: str, generation: int) -> None:
        """Write down, before its record moves, that a failed task is executed again."""
        found = ReopenedTask(generation=generation, status="failed", severity=Severity.FATAL)
        self._writer.write_state(self._path(task_id), found, durable=True)

    def _path(self, task_id: str) -> Path:
        return self._directory / f"{task_file_stem(task_id)}.json"


def requeue_failed(store: RunStore, input: RequeueFailedInput, success_of: SuccessOf) -> RequeuedTasks:
    """At most ``limit`` tasks from ``offset`` on whose records hold a FATAL issue, reopened.

    A repetition returns the same ones. A record that cannot be read stays where it is.
    """
    tasks: list[PendingTask] = []
    limit = None if input.before is None else max(0, input.before - input.offset)
    for entry in store.task_entries(input.offset, limit):
        noted = store.reopened_tasks.find(entry.task_id)
        again = noted is not None and noted.generation == input.generation
        if not again and not _is_failed(store, entry.task_id):
            continue
        if len(tasks) == input.limit:
            return RequeuedTasks(tasks=tasks, next_offset=entry.index)
        if not again:
            store.reopened_tasks.note(entry.task_id, input.generation)
        tasks.append(
            PendingTask(
                index=entry.index,
                task_id=entry.task_id,
                category=entry.category,
                finished_attempts=store.reopen_task(entry.task_id, success_of),
                generation=input.generation,
            )
        )
    return RequeuedTasks(tasks=tasks)


def _is_failed(store: RunStore, task_id: str) -> bool:
    try:
        record = store.task_record(task_id)
    except RecordError:
        return False  # the summary names it; nothing is thrown away that nobody could read
    return record is not None and worst_severity(record) is Severity.FATAL
