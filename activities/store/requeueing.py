"""Failed tasks that are executed again: their records move aside, and what stands of them is told."""

from __future__ import annotations

from ...contracts.activities import PendingTask, RequeuedTasks, RequeueFailedInput
from ...contracts.errors import RecordError
from ...contracts.issues import Severity
from .run_store import RunStore, SuccessOf
from .task_records import worst_severity


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
