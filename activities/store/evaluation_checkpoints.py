"""Complete but unscored executions, from which another run can take up the evaluation."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ...contracts.records import EvaluationCheckpoint
from .files import find_model
from .layout import task_file_stem
from .writer import MaskingWriter


class EvaluationCheckpoints:
    """``.state/evaluation/<task>.a<attempt>.json``."""

    def __init__(self, directory: Path, writer: MaskingWriter) -> None:
        self._directory = directory
        self._writer = writer

    def save(self, checkpoint: EvaluationCheckpoint) -> None:
        """Write durably, in place of the one before."""
        self._writer.write_state(self._path(checkpoint.task_id, checkpoint.attempt), checkpoint, durable=True)

    def find(self, task_id: str, attempt: int) -> EvaluationCheckpoint | None:
        """The checkpoint of an attempt, if there is one; RecordError when it is broken."""
        return find_model(self._path(task_id, attempt), EvaluationCheckpoint)

    def remove_scored(self, task_id: str, *, keep: Collection[int]) -> None:
        """Remove those of a finished task but of the attempts to ``keep``: they never got a score."""
        for path in self._directory.glob(f"{task_file_stem(task_id)}.a[0-9]*.json"):
            number = path.name.removesuffix(".json").rpartition(".a")[2]
            if number.isdigit() and int(number) not in keep:
                path.unlink(missing_ok=True)

    def _path(self, task_id: str, attempt: int) -> Path:
        return self._directory / f"{task_file_stem(task_id)}.a{attempt}.json"
