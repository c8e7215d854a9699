"""The run store: everything that belongs to one run directory. Nobody else touches its files."""

from __future__ import annotations

import logging
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from ...contracts.activities import (
    AttemptRef,
    ExecutionRef,
    FinishedAttempt,
    PendingTask,
    PendingTasks,
)
from ...contracts.errors import RecordError
from ...contracts.records import (
    AttemptCheckpoint,
    AttemptRecord,
    RetryRecord,
    TaskRecord,
)
from ...contracts.request import AttemptsSpec, RunRequest
from ...contracts.scheduling import attempts_remaining
from ...contracts.task import TaskSpec
from ..redaction import REDACTOR, Redactor
from .browsing import BrowsedTask, browse
from .checkpoints import AttemptCheckpoints
from .evaluation_checkpoints import EvaluationCheckpoints
from .execution import ExecutionStore
from .files import file_lock, read_model
from .layout import request_label, run_path, safe_component, task_file_stem
from .ledger import EnvironmentLedger
from .legacy import UnclassifiedTask, read_task_for_display
from .reopening import ReopenedTasks
from .reservation import STATE_DIR, discard_reservations, driver_of, reserve_by_time, reserve_directory
from .run_files import RunFiles
from .state import DriverRecord, RequestState, TaskEntry
from .steps import StepReader
from .task_records import (
    AttemptAnalysis,
    TaskRecords,
    compose,
    decompose,
    is_unscored,
    outcome_of,
)
from .tasks import TaskList
from .writer import MaskingWriter

SuccessOf = Callable[[AttemptRecord], bool | None]
"""The primary metric of a binary benchmark in a record; ``None`` when there is no observation."""

_LOCKS = 64
_log = logging.getLogger(__name__)


class RunStore:
    """One run directory. Cheap to make; safe to use from several threads and processes.

    What it reads comes from the files, so that any process sees what another one wrote; only the
    request and the task list, which never change, are kept.
    """

    def __init__(self, run_dir: Path, redactor: Redactor = REDACTOR) -> None:
        self.run_dir = run_dir
        self.redactor = redactor
        self._state = run_dir / STATE_DIR
        self._writer = MaskingWriter(redactor)
        self._tasks = TaskList(self._state, redactor)
        self._checkpoints = AttemptCheckpoints(self._state / "attempts", self._writer)
        self._records = TaskRecords(run_dir / "details", self._writer)
        self._request_state: RequestState | None = None
        self.reopened_tasks = ReopenedTasks(self._state / "reopened", self._writer)
        self.evaluation_checkpoints = EvaluationCheckpoints(self._state / "evaluation", self._writer)
        self.files = RunFiles(run_dir, self._writer)
        self.environments = EnvironmentLedger(run_dir)

    # --- the run -----------------------------------------------------------------------------

    @classmethod
    def reserve(cls, path: Path, *, owner: DriverRecord, redactor: Redactor = REDACTOR) -> RunStore:
        """Make the run directory for ``owner``, or find it when ``owner`` made it already.

        Raises RunDirectoryError, with nothing written, when another driver holds it, when its run
        is over, or when it cannot be written.
        """
        reserve_directory(path, owner)
        return cls(path, redactor)

    @classmethod
    def reserve_for(
        cls, request: RunRequest, results_dir: Path, *, owner: DriverRecord, started_at: datetime
    ) -> RunStore:
        """Reserve the run directory that ``request`` asks for.

        Without an explicit run id it is named after ``started_at``, plus a second for each
        collision. A retried activity must pass the same ``started_at`` to find its directory.
        """
        label = request_label(
            request.model.id, request.benchmark.id, request.harness.id, request.metadata.request_name
        )
        run_name, run_id = request.output.run_name, request.output.run_id
        if not run_id:
            return cls(reserve_by_time(results_dir, run_name, label, started_at, owner))
        return cls.reserve(run_path(results_dir, run_name, label, run_id), owner=owner)

    @classmethod
    def discard_for(cls, request: RunRequest, results_dir: Path, owner: DriverRecord) -> None:
        """Remove what ``owner`` has reserved for ``request`` and has not begun to use, wherever that is."""
        label = request_label(
            request.model.id, request.benchmark.id, request.harness.id, request.metadata.request_name
        )
        discard_reservations(run_path(results_dir, request.output.run_name, label, "any").parent, owner)

    @property
    def run_id(self) -> str:
        """The name of the run directory."""
        return self.run_dir.name

    def driver(self) -> DriverRecord | None:
        """Who reserved the directory."""
        return driver_of(self.run_dir)

    def save_request(self, state: RequestState) -> None:
        """Write down the request and what every activity must know of it."""
        self._writer.write_state(self._state / "request.json", state, durable=True)
        self._request_state = None

    def request_state(self) -> RequestState:
        """What :meth:`save_request` stored; read once."""
        if self._request_state is None:
            self._request_state = read_model(self._state / "request.json", RequestState)
        return self._request_state

    def request(self) -> RunRequest:
        """The request of this run."""
        return self.request_state().request

    # --- tasks -------------------------------------------------------------------------------

    def save_tasks(self, tasks: Sequence[TaskSpec]) -> None:
        """Write the task list, in the order of scheduling."""
        self._tasks.save(tasks)

    def has_tasks(self) -> bool:
        """True when the task list is complete on disk."""
        return self._tasks.exists()

    def task(self, index: int) -> TaskSpec:
        """One task; the others are not read."""
        return self._tasks.read(index)

    def task_count(self) -> int:
        """How many tasks the run has."""
        return len(self._tasks.entries())

    def task_entries(self, offset: int = 0, limit: int | None = None) -> list[TaskEntry]:
        """Entries from ``offset`` on, all of them by default."""
        return list(self._tasks.entries()[offset : None if limit is None else offset + limit])

    def pending_tasks(self, offset: int, limit: int) -> PendingTasks:
        """At most ``limit`` tasks without a record, from ``offset`` in the task list."""
        entries = self._tasks.entries()
        done, begun = self._records.stems(), self._checkpoints.stems()
        tasks: list[PendingTask] = []
        for entry in entries[offset:]:
            stem = task_file_stem(entry.task_id)
            if stem in done:
                continue
            if len(tasks) == limit:
                return PendingTasks(tasks=tasks, next_offset=entry.index)
            finished = self._checkpoints.finished(entry.task_id) if stem in begun else []
            tasks.append(
                PendingTask(
                    index=entry.index,
                    task_id=entry.task_id,
                    category=entry.category,
                    finished_attempts=finished,
                )
            )
        return PendingTasks(tasks=tasks)

    # --- executions --------------------------------------------------------------------------

    def execution(self, ref: ExecutionRef) -> ExecutionStore:
        """The files of one execution; made when something is written."""
        stem = task_file_stem(ref.task_id)
        artifacts = (
            self.run_dir / "artifacts" / stem / f"attempt-{ref.attempt}" / f"execution-{ref.execution}"
        )
        return ExecutionStore(
            self._work(ref), ref.execution, artifacts, self.run_dir, self._writer, step=ref.step
        )

    def latest_execution(self, ref: AttemptRef) -> ExecutionRef | None:
        """The execution with the highest number of which anything is stored."""
        numbers = [int(path.name[1:]) for path in self._work(ref).glob("e[0-9]*") if path.name[1:].isdigit()]
        if not numbers:
            return None
        return ExecutionRef(**ref.model_dump(exclude={"execution"}), execution=max(numbers))

    def last_step_at(self, task_id: str, attempt: int) -> float | None:
        """Unix time at which the agent of a running attempt recorded its last step, if it has one."""
        folder = self._state / "work" / task_file_stem(task_id) / f"a{attempt}"
        times: list[float] = []
        for path in [*folder.glob("e[0-9]*/steps.jsonl"), *folder.glob("e[0-9]*/s[0-9]*/steps.jsonl")]:
            try:
                times.append(path.stat().st_mtime)
            except FileNotFoundError:
                continue  # its attempt ended while we looked
        return max(times, default=None)

    def step_reader(self, task_id: str, attempt: int) -> StepReader:
        """Reads the steps of a running attempt."""
        return StepReader(self._state / "work" / task_file_stem(task_id) / f"a{attempt}")

    def _work(self, ref: AttemptRef) -> Path:
        return self._state / "work" / task_file_stem(ref.task_id) / f"a{ref.attempt}"

    def save_retry(self, record: RetryRecord, generation: int = 0) -> str:
        """Keep a discarded execution; returns its path relative to the run directory."""
        stage = safe_component(record.stage or "attempt")[:60]
        again = f".again{generation}" if generation else ""
        stem = f"{task_file_stem(record.task_id)}{again}"
        number = f"loss{record.loss}" if record.loss else f"retry{record.retry}"
        name = f"{stem}.attempt{record.attempt}.{number}.{stage}.json"
        self._writer.write_record(self.run_dir / "retry_details" / name, record, durable=True)
        return f"retry_details/{name}"

    # --- results -----------------------------------------------------------------------------

    def save_attempt(
        self, checkpoint: AttemptCheckpoint, attempts: AttemptsSpec, success_of: SuccessOf
    ) -> bool:
        """Make ``checkpoint`` the result of its attempt; True when the task is finished by it.

        Every step leaves a state from which a repetition finds its way: the record is on disk
        before anything it was made of is removed.
        """
        task_id = checkpoint.task_id
        with self._task_lock(task_id):
            if attempts.k == 1:
                self._finish(compose({checkpoint.attempt: checkpoint}, attempts))
                return True
            self._checkpoints.save(checkpoint, outcome_of(checkpoint, success_of(checkpoint.record)))
            # There is a record already when this is a repetition, or a task that is executed again.
            record = self._records.find(task_id)
            earlier = decompose(record) if record else {}
            outcomes = {number: outcome_of(item, success_of(item.record)) for number, item in earlier.items()}
            outcomes |= {item.attempt: item for item in self._checkpoints.finished(task_id)}
            if attempts_remaining(attempts, list(outcomes.values())):
                return False
            self._finish(compose({**earlier, **self._checkpoints.load(task_id)}, attempts))
            return True

    def save_task_record(self, record: TaskRecord) -> None:
        """Store a whole record at once, for a task that is taken over from another run."""
        with self._task_lock(record.task_id):
            self._finish(record)

    def reopen_task(self, task_id: str, success_of: SuccessOf) -> list[FinishedAttempt]:
        """Let a finished task be executed again; returns the attempts that stand.

        Attempts without a FATAL are kept as checkpoints; the record moves to ``retry_details/``.
        """
        with self._task_lock(task_id):
            record = self._records.find(task_id)
            if record is not None:
                for checkpoint in decompose(record).values():
                    outcome = outcome_of(checkpoint, success_of(checkpoint.record))
                    if not outcome.fatal and record.attempt_plan.k > 1:
                        self._checkpoints.save(checkpoint, outcome)
                self._records.archive(task_id, self.run_dir / "retry_details")
            return self._checkpoints.finished(task_id)

    def keep_attempt(self, checkpoint: AttemptCheckpoint, success_of: SuccessOf) -> None:
        """Store a finished attempt of a task whose others are still to come, without looking at those."""
        with self._task_lock(checkpoint.task_id):
            self._checkpoints.save(checkpoint, outcome_of(checkpoint, success_of(checkpoint.record)))

    def has_finished_work(self) -> bool:
        """True when there is a task record, a finished attempt or an execution that awaits its evaluation."""
        return bool(self._records.stems() or self._checkpoints.stems() or self.evaluation_checkpoints.stems())

    def mark_taken_over(self) -> None:
        """Say that everything that another run had is here; until then this run holds a part of it only."""
        self._writer.write_state(self._state / "taken_over.json", True, durable=True)

    def is_taken_over(self) -> bool:
        """Whether :meth:`mark_taken_over` was called."""
        return (self._state / "taken_over.json").exists()

    def checkpoint_stems(self) -> set[str]:
        """File stems of all unfinished tasks with finished attempts."""
        return self._checkpoints.stems()

    def finished_attempts(self, task_id: str) -> list[FinishedAttempt]:
        """Attempts of an unfinished task that are done."""
        return self._checkpoints.finished(task_id)

    def attempt_checkpoint(self, task_id: str, attempt: int) -> AttemptCheckpoint | None:
        """A finished attempt of an unfinished task. Raises RecordError when it is broken."""
        return self._checkpoints.find(task_id, attempt)

    def attempt(self, task_id: str, attempt: int) -> AttemptCheckpoint | None:
        """A finished attempt, whether or not its task is finished, too."""
        checkpoint = self._checkpoints.find(task_id, attempt)
        if checkpoint is None and (record := self._records.find(task_id)):
            checkpoint = decompose(record).get(attempt)
        return checkpoint

    def save_analysis(self, task_id: str, found: Mapping[str, AttemptAnalysis]) -> int:
        """Add what analyzers found to the record of a finished task, by attempt number.

        Durable, in one step, and safe to repeat. A task that is not finished, or an attempt that was
        executed again since it was analysed, is left alone. Returns how many attempts have changed.
        """
        with self._task_lock(task_id):
            return self._records.add_analysis(task_id, found)

    def has_record(self, task_id: str) -> bool:
        """True when the task is finished."""
        return self._records.path(task_id) is not None

    def task_record(self, task_id: str) -> TaskRecord | None:
        """The record of a finished task. Raises RecordError when it cannot be read or classified."""
        return self._records.find(task_id)

    def iter_task_records(self) -> Iterator[TaskRecord]:
        """The records of all finished tasks, in the order of the task list, one in memory at a time."""
        for _, record in self.iter_tasks():
            if record is not None:
                yield record

    def iter_tasks(self) -> Iterator[tuple[TaskEntry, TaskRecord | None]]:
        """Every task with its record; ``None`` for an unfinished one.

        A record that cannot be read costs its own task only: it is logged and comes as ``None``.
        """
        done = self._records.stems()
        for entry in self._tasks.entries():
            yield entry, self._readable(entry) if task_file_stem(entry.task_id) in done else None

    def _readable(self, entry: TaskEntry) -> TaskRecord | None:
        try:
            return self._records.find(entry.task_id)
        except RecordError as error:
            _log.error("task %s counts as unfinished: %s", entry.task_id, error)
            return None

    def iter_details(self) -> Iterator[TaskRecord | UnclassifiedTask]:
        """Every record there is, by file name and whatever its version; for showing, not for counting.

        Works without a task list, as in a run of an older version. RecordError for a broken record.
        """
        return (read_task_for_display(path) for path in self._records.paths())

    def browse(self, *, by_file: bool = False, max_bytes: int | None = None) -> Iterator[BrowsedTask]:
        """Every task for showing it, also damaged and older ones, one in memory at a time.

        Without a task list, or with ``by_file``, every record file. A record of more than ``max_bytes`` is
        named, but not read. Raises RecordError for a damaged list only.
        """
        entries = None if by_file or not self.has_tasks() else self._tasks.entries()
        return browse(entries, self._records, self.run_dir, max_bytes)

    def _finish(self, record: TaskRecord) -> None:
        """Write the record, then remove what it was made of."""
        self._records.save(record)
        unscored = {int(number) for number, attempt in record.attempts.items() if is_unscored(attempt)}
        self.evaluation_checkpoints.remove_scored(record.task_id, keep=unscored)
        self._checkpoints.remove(record.task_id)
        shutil.rmtree(self._state / "work" / task_file_stem(record.task_id), ignore_errors=True)

    def _task_lock(self, task_id: str) -> AbstractContextManager[None]:
        """Few locks for many tasks: a lock file must never be removed, and one a task would be too many."""
        number = zlib.crc32(task_file_stem(task_id).encode()) % _LOCKS
        return file_lock(self._state / "locks" / f"task-{number}.lock")


@lru_cache(maxsize=256)
def _opened(run_dir: str) -> RunStore:
    return RunStore(Path(run_dir))


def open_store(run_dir: str | Path) -> RunStore:
    """The process's store of a run directory."""
    return _opened(str(run_dir))
