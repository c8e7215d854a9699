"""What the tasks of a run are doing right now, read from its directory."""

from __future__ import annotations

import time

from ..activities.store import open_store
from ..contracts.launch import RunningTask
from .launch_status import read_snapshot

SHOWN = 20


def running_tasks(run_dir: str, now: float | None = None) -> list[RunningTask]:
    """Tasks in flight, those without news for longest first; empty when the directory is elsewhere."""
    snapshot = read_snapshot(run_dir)
    if snapshot is None:
        return []
    now = time.time() if now is None else now
    store = open_store(run_dir)
    found = []
    for task_id, active in snapshot.active_tasks.items():
        step = store.last_step_at(task_id, active.attempt) if active.attempt else None
        found.append(
            RunningTask(
                task_id=task_id,
                attempt=active.attempt,
                phase=active.phase,
                phase_seconds=round(max(0.0, now - active.updated_at), 1),
                last_step_seconds=None if step is None else round(max(0.0, now - step), 1),
            )
        )
    return sorted(found, key=_quiet_seconds, reverse=True)[:SHOWN]


def _quiet_seconds(task: RunningTask) -> float:
    return min(
        task.phase_seconds, task.phase_seconds if task.last_step_seconds is None else task.last_step_seconds
    )
