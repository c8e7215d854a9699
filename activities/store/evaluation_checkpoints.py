"""Complete but unscored executions, from which another run can take up the evaluation."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from pathlib import Path

from pydantic import BaseModel

from ...contracts.errors import RecordError
from ...contracts.records import EvaluationCheckpoint
from .files import encode, find_model
from .layout import task_file_stem
from .writer import MaskingWriter

_SEALED = ("prepared", "result")


class EvaluationCheckpoints:
    """``.state/evaluation/<task>.a<attempt>.json``."""

    def __init__(self, directory: Path, writer: MaskingWriter) -> None:
        self._directory = directory
        self._writer = writer

    def save(self, checkpoint: EvaluationCheckpoint) -> None:
        """Write durably, in place of the one before, with the digests of prepared task and result."""
        known = self._writer.redactor.known
        parts = {name: known(getattr(checkpoint, name).model_dump(mode="json")) for name in _SEALED}
        digests = {**checkpoint.digests, **{name: _digest(part) for name, part in parts.items()}}
        sealed = checkpoint.model_copy(update={"digests": digests})
        self._writer.write_state(self._path(checkpoint.task_id, checkpoint.attempt), sealed, durable=True)

    def find(self, task_id: str, attempt: int) -> EvaluationCheckpoint | None:
        """The checkpoint of an attempt, if there is one.

        Raises RecordError when it is broken: not what its schema says, changed after it was
        written, or another attempt's.
        """
        path = self._path(task_id, attempt)
        checkpoint = find_model(path, EvaluationCheckpoint)
        if checkpoint is None:
            return None
        if (checkpoint.task_id, checkpoint.attempt) != (task_id, attempt):
            raise RecordError(f"{path}: belongs to attempt {checkpoint.attempt} of {checkpoint.task_id!r}")
        for name in _SEALED:
            if checkpoint.digests.get(name) != _digest(getattr(checkpoint, name)):
                raise RecordError(f"{path}: the digest of {name!r} is not the one that was recorded")
        return checkpoint

    def exists(self, task_id: str, attempt: int) -> bool:
        """True when there is something for :meth:`find`; nearly never, so that asking must be cheap."""
        return self._path(task_id, attempt).exists()

    def stems(self) -> set[str]:
        """File stems of all tasks with a checkpoint, from one look at the directory."""
        names = (path.name.removesuffix(".json") for path in self._directory.glob("*.a[0-9]*.json"))
        return {name.rpartition(".a")[0] for name in names}

    def remove_scored(self, task_id: str, *, keep: Collection[int]) -> None:
        """Remove those of a finished task but of the attempts to ``keep``: they never got a score."""
        for path in self._directory.glob(f"{task_file_stem(task_id)}.a[0-9]*.json"):
            number = path.name.removesuffix(".json").rpartition(".a")[2]
            if number.isdigit() and int(number) not in keep:
                path.unlink(missing_ok=True)

    def _path(self, task_id: str, attempt: int) -> Path:
        return self._directory / f"{task_file_stem(task_id)}.a{attempt}.json"


def _digest(value: BaseModel | object) -> str:
    """sha256 of a value as it will be read again, whatever the order of its keys."""
    stored = json.loads(encode(value))  # not orjson: integers beyond 64 bits must stay integers
    return hashlib.sha256(json.dumps(stored, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
