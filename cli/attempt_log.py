"""The steps of one attempt from its run directory, while it runs and afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..activities.store import RecordedStep, RunStore, open_store
from ..contracts.errors import RecordError, UsageError
from ..contracts.progress import OVER
from ..contracts.records import ActiveTask, AttemptRecord
from .launch_status import read_snapshot

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class RecordedPlace:
    """The step that was told last; 0 before the first one."""

    execution: int = 0
    step_id: int = 0


class AttemptLog:
    """Each step is told once, wherever it is found: where it was recorded, or in the result."""

    def __init__(self, run_dir: Path, task_id: str, attempt: int | None) -> None:
        if not (run_dir / "run_info.json").is_file():
            raise UsageError(f"{run_dir} is no run directory on this machine")
        self._store: RunStore = open_store(run_dir)
        if all(entry.task_id != task_id for entry in self._store.task_entries()):
            raise UsageError(f"the run in {run_dir} has no task {task_id!r}")
        if attempt is not None:
            _check_attempt(self._store, task_id, attempt)
        self._run_dir = run_dir
        self._task_id = task_id
        self.attempt = attempt or self._latest()
        self._reader = self._store.step_reader(task_id, self.attempt)
        self._last = RecordedPlace()

    def steps(self) -> list[RecordedStep]:
        """Those that were not told yet."""
        found = self._reader.read()
        record = self.result()
        if record is not None and record.trajectory is not None:
            execution = max(self._last.execution, *(item.execution for item in found), 1)
            known = {item.step.step_id for item in found if item.execution == execution}
            told = self._last.step_id if self._last.execution == execution else 0
            found += [
                RecordedStep(execution=execution, step=step)
                for step in record.trajectory.steps
                if step.step_id > told and step.step_id not in known
            ]
        if found:
            self._last = RecordedPlace(found[-1].execution, found[-1].step.step_id)
        return found

    def follow(self) -> Iterator[RecordedStep]:
        """The steps as they come, until the attempt is over."""
        while True:
            over = self.over
            yield from self.steps()
            if over:
                return
            time.sleep(POLL_SECONDS)

    def result(self) -> AttemptRecord | None:
        """The attempt's result, if it has one."""
        checkpoint = self._store.attempt(self._task_id, self.attempt)
        return checkpoint.record if checkpoint else None

    @property
    def over(self) -> bool:
        """True when no step can follow."""
        snapshot = read_snapshot(str(self._run_dir))
        return self.result() is not None or (snapshot is not None and snapshot.status in OVER)

    @property
    def phase(self) -> str:
        """What the attempt is doing; empty when it is not known to do anything."""
        active = self._active()
        return active.phase if active is not None and active.attempt == self.attempt else ""

    def _active(self) -> ActiveTask | None:
        snapshot = read_snapshot(str(self._run_dir))
        return snapshot.active_tasks.get(self._task_id) if snapshot else None

    def _latest(self) -> int:
        """The attempt that runs, else the last one that there is."""
        active = self._active()
        if active is not None and active.attempt:
            return active.attempt
        record = self._store.task_record(self._task_id)
        if record is not None:
            return max(map(int, record.attempts), default=1)
        finished = self._store.finished_attempts(self._task_id)
        return max((item.attempt for item in finished), default=1)


def _check_attempt(store: RunStore, task_id: str, attempt: int) -> None:
    """Raises ``UsageError`` for one that the run does not have."""
    try:
        count = store.request().execution.attempts.k
    except RecordError:
        return  # an old run, or a damaged one: it is not known how many it has
    if attempt > count:
        raise UsageError(
            f"task {task_id!r} has {count} {'attempt' if count == 1 else 'attempts'}, and no attempt {attempt}"
        )
