"""Task records: ``details/<task>.json``, a failed one ``details/_error_<task>.json``."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ...contracts.activities import FinishedAttempt
from ...contracts.analyzer import AnalyzerResult
from ...contracts.errors import RecordError
from ...contracts.issues import Severity
from ...contracts.records import AttemptCheckpoint, AttemptRecord, TaskRecord
from ...contracts.request import AttemptsSpec
from .files import encode, sync_directory
from .layout import task_file_stem
from .legacy import read_task_record
from .writer import MaskingWriter

ERROR_PREFIX = "_error_"
_SUFFIX = ".json"
_NUMBER = re.compile(r"^[1-9][0-9]{0,5}$")


def is_fatal(record: AttemptRecord) -> bool:
    """True when the attempt cannot be scored."""
    return any(issue.severity is Severity.FATAL for issue in record.issues)


def is_unscored(record: AttemptRecord) -> bool:
    """True when the attempt has no score, so that its evaluation may be taken up again."""
    return is_fatal(record) or not record.metrics


def worst_severity(record: TaskRecord) -> Severity | None:
    """The worst issue of the final attempts; ``None`` without any."""
    found = {issue.severity for attempt in record.attempts.values() for issue in attempt.issues}
    return next((severity for severity in Severity if severity in found), None)


def checked_record(record: TaskRecord, path: Path, task_id: str) -> TaskRecord:
    """``record`` of ``task_id``; RecordError names ``path`` when it is of another task, or of no attempts."""
    if record.task_id != task_id:
        raise RecordError(f"{path}: the record of another task, {record.task_id[:200]!r}")
    wrong = [number for number in record.attempts if not _NUMBER.match(number)]
    if wrong or not record.attempts:
        raise RecordError(f"{path}: its attempts are not numbered from 1: {wrong[:3]}")
    return record


def compose(checkpoints: Mapping[int, AttemptCheckpoint], attempts: AttemptsSpec) -> TaskRecord:
    """One record from the finished attempts of a task."""
    numbers = sorted(checkpoints)
    last = checkpoints[numbers[-1]]
    retries = {
        str(number): checkpoints[number].retry_count for number in numbers if checkpoints[number].retry_count
    }
    return TaskRecord(
        task_id=last.task_id,
        category=last.category,
        ground_truth=last.ground_truth,
        attempt_plan=attempts,
        stopped_early=len(numbers) < attempts.k,
        retry_count=sum(retries.values()),
        retry_counts=retries,
        attempts={str(number): checkpoints[number].record for number in numbers},
    )


def decompose(record: TaskRecord) -> dict[int, AttemptCheckpoint]:
    """The finished attempts of a record, for a task that gets further ones."""
    return {
        int(number): AttemptCheckpoint(
            task_id=record.task_id,
            category=record.category,
            ground_truth=record.ground_truth,
            attempt=int(number),
            retry_count=record.retry_counts.get(number, 0),
            record=attempt,
        )
        for number, attempt in record.attempts.items()
    }


@dataclass(frozen=True)
class AttemptAnalysis:
    """What analyzers found in one attempt."""

    digest: str
    """:func:`attempt_digest` of the attempt that they looked at."""
    results: Mapping[str, AnalyzerResult]
    """By analyzer id."""


def attempt_digest(record: AttemptRecord) -> str:
    """sha256 (hex) of an attempt's result, whatever was found in it."""
    return hashlib.sha256(encode(record.model_copy(update={"analysis_result": {}}))).hexdigest()


class TaskRecords:
    """The record files of one run directory."""

    def __init__(self, directory: Path, writer: MaskingWriter) -> None:
        self._directory = directory
        self._writer = writer

    def save(self, record: TaskRecord) -> None:
        """Write durably. A task has one record: the one of the other kind goes once this one is there."""
        plain, failed = self._paths(record.task_id)
        fatal = any(is_fatal(attempt) for attempt in record.attempts.values())
        path, other = (failed, plain) if fatal else (plain, failed)
        self._writer.write_record(path, record, durable=True)
        if os.path.lexists(other):
            other.unlink(missing_ok=True)
            sync_directory(self._directory)

    def path(self, task_id: str) -> Path | None:
        """Where the record of a task is; ``None`` when it has none."""
        times: dict[Path, int] = {}
        for path in self._paths(task_id):
            try:
                times[path] = path.stat(follow_symlinks=False).st_mtime_ns
            except FileNotFoundError:
                continue
        # Both exist only when a writer was killed before it removed the older one.
        return max(times, key=lambda path: times[path], default=None)

    def find(self, task_id: str) -> TaskRecord | None:
        """The record of a task; RecordError when it is broken or of an unclassified older version."""
        path = self.path(task_id)
        return None if path is None else checked_record(read_task_record(path), path, task_id)

    def add_analysis(self, task_id: str, found: Mapping[str, AttemptAnalysis]) -> int:
        """Add results to the attempts they belong to, and write when there are any; returns for how many."""
        record, added = self.find(task_id), 0
        for number, analysis in found.items():
            attempt = record.attempts.get(number) if record else None
            if attempt is None or attempt_digest(attempt) != analysis.digest:
                continue  # executed again in the meantime: these results are about something else
            if {**attempt.analysis_result, **analysis.results} != attempt.analysis_result:
                attempt.analysis_result.update(analysis.results)
                added += 1
        if record is not None and added:
            self.save(record)
        return added

    def archive(self, task_id: str, directory: Path) -> None:
        """Move the record of a task that is executed again to ``directory``."""
        directory.mkdir(parents=True, exist_ok=True)
        stem, number = task_file_stem(task_id), 1
        while (path := self.path(task_id)) is not None:
            while (target := directory / f"{stem}.record{number}.json").exists():
                number += 1
            os.replace(path, target)
        sync_directory(directory)
        sync_directory(self._directory)

    def stems(self) -> set[str]:
        """File stems of all tasks with a record, from one look at the directory."""
        try:
            names = os.listdir(self._directory)
        except FileNotFoundError:
            return set()
        return {
            name.removeprefix(ERROR_PREFIX).removesuffix(_SUFFIX)
            for name in names
            if name.endswith(_SUFFIX) and not name.startswith(".")
        }

    def paths(self) -> list[Path]:
        """The files of all records, by name."""
        return [path for path in sorted(self._directory.glob(f"*{_SUFFIX}")) if not path.name.startswith(".")]

    def _paths(self, task_id: str) -> tuple[Path, Path]:
        stem = task_file_stem(task_id)
        return self._directory / f"{stem}{_SUFFIX}", self._directory / f"{ERROR_PREFIX}{stem}{_SUFFIX}"


def outcome_of(checkpoint: AttemptCheckpoint, success: bool | None) -> FinishedAttempt:
    """What scheduling needs to know of a finished attempt."""
    return FinishedAttempt(attempt=checkpoint.attempt, success=success, fatal=is_fatal(checkpoint.record))
