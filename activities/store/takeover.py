"""Taking finished work over from another run directory, which is only read.

The other run may still go on, and others may take over from it at the same time: what is found
is consistent, because files are replaced by renames and looked at once.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...contracts.activities import ExecutionRef
from ...contracts.errors import RecordError
from ...contracts.records import AttemptCheckpoint, EvaluationCheckpoint, TaskRecord
from .files import TEMPORARY_PREFIX, sync_directory
from .layout import task_file_stem
from .legacy import UnclassifiedRecordError, read_task_record
from .linking import link_file, link_tree
from .run_store import RunStore
from .task_records import TaskRecords, checked_record
from .writer import MaskingWriter

_counter = itertools.count()


@dataclass(frozen=True)
class BorrowedRecord:
    """A record of another run under a temporary name in this one, where nothing can change it."""

    record: TaskRecord
    path: Path


class TakeOver:
    """Moves the finished work of ``source`` into ``target``; running it twice is safe."""

    def __init__(self, source: RunStore, target: RunStore) -> None:
        self.source = source
        self.target = target
        self._details = target.run_dir / "details"
        self._records = TaskRecords(source.run_dir / "details", MaskingWriter(source.redactor))
        self._finished = self._records.stems()
        self._begun = source.checkpoint_stems() | source.evaluation_checkpoints.stems()

    def has_anything(self, task_id: str) -> bool:
        """False when the source had nothing of this task when it was looked at."""
        return task_file_stem(task_id) in self._finished | self._begun

    def attempts(self, task_id: str) -> tuple[dict[int, AttemptCheckpoint], list[RecordError]]:
        """Finished attempts of an unfinished task by number, and what is wrong with broken ones.

        To be called before :meth:`borrowed`: the record is there before the attempts go.
        """
        found: dict[int, AttemptCheckpoint] = {}
        problems: list[RecordError] = []
        for outcome in self.source.finished_attempts(task_id):
            try:
                checkpoint = self.source.attempt_checkpoint(task_id, outcome.attempt)
            except RecordError as error:
                problems.append(error)
                continue
            if checkpoint is None:
                continue  # the task was finished meanwhile
            if (checkpoint.task_id, checkpoint.attempt) == (task_id, outcome.attempt):
                found[outcome.attempt] = checkpoint
            else:
                problems.append(RecordError(f"attempt {outcome.attempt} of {task_id!r} is another one's"))
        return found, problems

    @contextlib.contextmanager
    def borrowed(self, task_id: str) -> Iterator[BorrowedRecord | None]:
        """The record of a task, ``None`` without one.

        Raises ``RecordError`` for a broken one, ``UnclassifiedRecordError`` for an older one that
        says too little.
        """
        name = f"{TEMPORARY_PREFIX}{os.getpid()}-{next(_counter)}-{secrets.token_hex(4)}"
        temporary = self._details / name
        try:
            source = self._link(task_id, temporary)
            yield None if source is None else BorrowedRecord(_read(temporary, source, task_id), temporary)
        finally:
            temporary.unlink(missing_ok=True)

    def _link(self, task_id: str, temporary: Path) -> Path | None:
        for _ in range(3):
            path = self._records.path(task_id)
            if path is None:
                return None
            with contextlib.suppress(FileNotFoundError):  # replaced by one of the other kind meanwhile
                if not stat.S_ISREG(path.stat(follow_symlinks=False).st_mode):
                    raise RecordError(f"{path}: not a regular file")
                link_file(path, temporary)
                return path
        return None

    def take_record(self, borrowed: BorrowedRecord) -> None:
        """Make the borrowed file the task's record, as it is."""
        os.replace(borrowed.path, self._details / f"{task_file_stem(borrowed.record.task_id)}.json")

    def take_artifacts(self, task_id: str, attempt: int) -> None:
        """Take over the files that an attempt kept, with those of its discarded executions."""
        folder = Path("artifacts") / task_file_stem(task_id) / f"attempt-{attempt}"
        if (self.source.run_dir / folder).is_dir():
            link_tree(self.source.run_dir / folder, self.target.run_dir / folder)

    def take_execution(self, checkpoint: EvaluationCheckpoint, ref: ExecutionRef) -> Path:
        """Take over the files of the execution that a checkpoint is about, as those of ``ref``.

        Returns the directory that they are in; it does not exist when there are none.
        """
        earlier = ref.model_copy(
            update={"run_dir": str(self.source.run_dir), "execution": checkpoint.execution}
        )
        source = self.source.run_dir / self.source.execution(earlier).artifact_path()
        target = self.target.run_dir / self.target.execution(ref).artifact_path()
        if source.is_dir():
            link_tree(source, target)
        return target

    def sync(self) -> None:
        """Make the records that were taken over durable."""
        if self._details.is_dir():
            sync_directory(self._details)


def _read(path: Path, source: Path, task_id: str) -> TaskRecord:
    """The record at ``path``; errors name ``source``."""
    try:
        record = read_task_record(path)
    except UnclassifiedRecordError as error:
        raise UnclassifiedRecordError(source, error.task) from None
    except RecordError as error:
        raise RecordError(str(error).replace(str(path), str(source))) from None
    return checked_record(record, source, task_id)
