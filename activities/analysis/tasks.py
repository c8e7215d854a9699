"""Analyse finished tasks: read the record, run the analyzers, add what they found."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from ...contracts.activities import AnalyzedTasks
from ...contracts.errors import RecordError
from ..store import TaskEntry
from .attempts import Analysis, analyze_record

AT_ONCE = 4
"""Tasks that are looked at at the same time: enough for analyzers that wait for a model."""

_log = logging.getLogger("agentcompass.analyze")


async def analyze_tasks(analysis: Analysis, entries: Sequence[TaskEntry]) -> AnalyzedTasks:
    """Analyse finished tasks, some at the same time. Raises OSError when a record cannot be written."""
    done = AnalyzedTasks()

    async def analyze(entry: TaskEntry) -> None:
        found = await analyze_task(analysis, entry)
        done.attempts += found.attempts
        done.failures += found.failures

    await some_at_once(entries, analyze)
    return done


async def some_at_once(entries: Sequence[TaskEntry], work: Callable[[TaskEntry], Awaitable[None]]) -> None:
    """Do ``work`` for every entry, :data:`AT_ONCE` of them at the same time. Raises the first OSError."""
    waiting = iter(entries)  # shared: whoever is free takes the next one

    async def take() -> None:
        for entry in waiting:
            await work(entry)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(take())
    except* OSError as errors:
        failed = errors
    else:
        return
    raise failed.exceptions[0]


async def analyze_task(analysis: Analysis, entry: TaskEntry) -> AnalyzedTasks:
    """Analyse one task and store what was found; nothing for a task without a readable record."""
    try:
        record = await asyncio.to_thread(analysis.store.task_record, entry.task_id)
    except RecordError as error:
        _log.warning("task %s is not analysed: %s", entry.task_id, error)
        return AnalyzedTasks()
    if record is None:
        return AnalyzedTasks()
    found = await analyze_record(analysis, entry, record)
    if not found:
        return AnalyzedTasks()
    changed = await asyncio.to_thread(analysis.store.save_analysis, entry.task_id, found)
    results = [result for item in found.values() for result in item.results.values()]
    return AnalyzedTasks(attempts=changed, failures=sum(result.error is not None for result in results))
