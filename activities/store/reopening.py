"""Finished tasks that an operator has executed again: what is noted of them."""

from __future__ import annotations

from pathlib import Path

from ...contracts.issues import Severity
from .files import find_model
from .layout import task_file_stem
from .state import ReopenedTask
from .writer import MaskingWriter


class ReopenedTasks:
    """``.state/reopened/<task>.json``: one small file a task."""

    def __init__(self, directory: Path, writer: MaskingWriter) -> None:
        self._directory = directory
        self._writer = writer

    def find(self, task_id: str) -> ReopenedTask | None:
        """What became of a task before it was executed again; ``None`` when it never was."""
        return find_model(self._path(task_id), ReopenedTask)

    def note(self, task_id: str, generation: int) -> None:
        """Write down, before its record moves, that a failed task is executed again."""
        found = ReopenedTask(generation=generation, status="failed", severity=Severity.FATAL)
        self._writer.write_state(self._path(task_id), found, durable=True)

    def _path(self, task_id: str) -> Path:
        return self._directory / f"{task_file_stem(task_id)}.json"
