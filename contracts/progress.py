"""The progress of a run as a function of its events: ``progress.json`` from ``progress.jsonl``.

What ``payload`` of each event holds is said by the constructors in ``activities/store/events.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .records import ActiveTask, ProgressEvent, ProgressSnapshot

_SEVERITY_COUNTERS = {"fatal": "failed_tasks", "error": "error_tasks", "warning": "warning_tasks"}
OVER = frozenset({"completed", "failed", "cancelled", "timed_out"})
"""States of a run in which nothing is running any more."""


def apply_event(snapshot: ProgressSnapshot, event: ProgressEvent) -> None:
    """Change ``snapshot`` to the state after ``event``. Each event is given once, in order of ``seq``.

    An event of a task that is not active (a zombie worker's, after the task was finished
    elsewhere) moves the counters of attempts, but does not bring the task back.
    """
    handler = _HANDLERS.get(event.event)
    if handler is not None:
        handler(snapshot, event)
    snapshot.last_seq = event.seq
    snapshot.updated_at = max(snapshot.updated_at, event.timestamp)
    if snapshot.started_at == 0.0:
        snapshot.started_at = event.timestamp
    snapshot.elapsed_seconds = round(max(0.0, snapshot.updated_at - snapshot.started_at), 3)


def snapshot_of(run_id: str, events: Iterable[ProgressEvent]) -> ProgressSnapshot:
    """The state after ``events``."""
    snapshot = ProgressSnapshot(run_id=run_id)
    for event in events:
        apply_event(snapshot, event)
    return snapshot


def _run_started(snapshot: ProgressSnapshot, event: ProgressEvent) -> None:
    snapshot.run_id = event.run_id  # a copied run keeps its id whatever its directory is called
    snapshot.status = "running"
    for name in ("model", "benchmark", "harness", "environment"):
        setattr(snapshot, name, str(event.payload.get(name, "")))


def _tasks_loaded(snapshot: ProgressSnapshot, event: ProgressEvent) -> None:
    snapshot.total_tasks = int(event.payload["total_tasks"])
    snapshot.pending_tasks = max(0, snapshot.total_tasks - snapshot.finished_tasks - snapshot.running_tasks)


def _reuse_loaded(snapshot: ProgressSnapshot, event: ProgressEvent) -> None:
    reused = int(event.payload["reused_tasks"])
    snapshot.reused_tasks += reused
    snapshot.finished_tasks += reused
    snapshot.completed_tasks += reused
    snapshot.pending_tasks = max(0, snapshot.pending_tasks - reused)
    for name in ("error_tasks", "warning_tasks"):
        setattr(snapshot, name, getattr(snapshot, name) + int(event.payload.get(name, 0)))


def _task_started(snapshot: ProgressSnapshot, event: ProgressEvent) -> None:
    if event.task_id is None or event.task_id in snapshot.active_tasks or snapshot.status in OVER:
        return
    previous = event.payload.get("reopened")
    if previous is None:
        snapshot.pending_tasks = max(0, snapshot.pending_tasks - 1)
    else:  # it was finished before: take its old outcome out of the counters
        _count_outcome(snapshot, str(previous["status"]), previous.get("severity"), -1)
    snapshot.running_tasks += 1
    _activate(snapshot, event.task_id, ActiveTask(category=event.category, updated_at=event.timestamp))


def _task_finished(snapshot: ProgressSnapshot, event: ProgressEvent) -> None:
    if event.task_id is not None and _deactivate(snapshot, event.task_id):
        snapshot.running_tasks -= 1
    else:
        snapshot.pending_tasks = max(0, snapshot.pending_tasks - 1)
    _count_outcome(snapshot, event.status or "completed", event.payload.get("severity"), 1)


def _count_outcome(snapshot: ProgressSnapshot, status: str, severity: str | None, step: int) -> None:
    snapshot.finished_tasks += step
    if status == "completed":
        snapshot.completed_tasks += step
    elif status == "skipped":
        snapshot.skipped_tasks += step
    counter = _SEVERITY_COUNTERS.get(severity or "")
    if counter:
        setattr(snapshot, counter, getattr(snapshot, counter) + step)


def _phase_changed(snapshot: ProgressSnapshot, event: ProgressEvent) -> None:
    _touch(snapshot, event, phase=event.phase)


def _attempt_started(snapshot: ProgressSnapshot, event: ProgressEvent) -> None:
    snapshot.attempts_started += 1
    _touch(snapshot, event)


def _attempt_finished(snapshot: ProgressSnapshot, event: ProgressEvent) -> None:
    snapshot.attempts_finished += 1
    _touch(snapshot, event)


def _partial_saved(snapshot: ProgressSnapshot, event: ProgressEvent) -> None:
    snapshot.partials_saved += 1
    _touch(snapshot, event)


def _summary_started(snapshot: ProgressSnapshot, _event: ProgressEvent) -> None:
    snapshot.status = "summarizing"


def _run_finished(snapshot: ProgressSnapshot, event: ProgressEvent) -> None:
    snapshot.status = event.status or "completed"
    snapshot.pending_tasks = max(0, snapshot.total_tasks - snapshot.finished_tasks)
    snapshot.running_tasks = 0
    snapshot.active_tasks = {}
    snapshot.current_phase_counts = {}


def _touch(snapshot: ProgressSnapshot, event: ProgressEvent, phase: str | None = None) -> None:
    """Note what an active task is doing."""
    active = snapshot.active_tasks.get(event.task_id or "")
    if active is None:
        return
    active.updated_at = event.timestamp
    active.attempt = event.attempt if event.attempt is not None else active.attempt
    if phase is not None and phase != active.phase:
        _count_phase(snapshot, active.phase, -1)
        _count_phase(snapshot, phase, 1)
        active.phase = phase


def _activate(snapshot: ProgressSnapshot, task_id: str, task: ActiveTask) -> None:
    snapshot.active_tasks[task_id] = task
    _count_phase(snapshot, task.phase, 1)


def _deactivate(snapshot: ProgressSnapshot, task_id: str) -> bool:
    task = snapshot.active_tasks.pop(task_id, None)
    if task is not None:
        _count_phase(snapshot, task.phase, -1)
    return task is not None


def _count_phase(snapshot: ProgressSnapshot, phase: str, step: int) -> None:
    count = snapshot.current_phase_counts.get(phase, 0) + step
    if count > 0:
        snapshot.current_phase_counts[phase] = count
    else:
        snapshot.current_phase_counts.pop(phase, None)


_HANDLERS: dict[str, Callable[[ProgressSnapshot, ProgressEvent], None]] = {
    "run_started": _run_started,
    "tasks_loaded": _tasks_loaded,
    "reuse_loaded": _reuse_loaded,
    "task_started": _task_started,
    "phase_changed": _phase_changed,
    "attempt_started": _attempt_started,
    "execution_plan_resolved": _touch,
    "attempt_retry": _touch,
    "attempt_finished": _attempt_finished,
    "partial_saved": _partial_saved,
    "task_finished": _task_finished,
    "summary_started": _summary_started,
    "run_finished": _run_finished,
}
