"""Finished attempts of tasks whose other attempts are still to come.

``.state/attempts/<task>/a<n>.<outcome>.json``: the outcome is part of the name, so that scheduling
reads one directory instead of every trajectory.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from ...contracts.activities import FinishedAttempt
from ...contracts.records import AttemptCheckpoint
from .files import read_model
from .layout import task_file_stem
from .writer import MaskingWriter

_NAME = re.compile(r"^a(?P<attempt>[1-9][0-9]*)\.(?P<success>yes|no|none)(?P<fatal>\.fatal)?\.json$")
_WORDS: dict[bool | None, str] = {True: "yes", False: "no", None: "none"}
_SUCCESS: dict[str, bool | None] = {word: success for success, word in _WORDS.items()}


class AttemptCheckpoints:
    """The checkpoint files of one run directory. Callers hold the task's lock when they write."""

    def __init__(self, directory: Path, writer: MaskingWriter) -> None:
        self._directory = directory
        self._writer = writer

    def save(self, checkpoint: AttemptCheckpoint, outcome: FinishedAttempt) -> None:
        """Write durably; an earlier checkpoint of the same attempt goes once the new one is there."""
        directory = self._task_dir(checkpoint.task_id)
        name = f"a{outcome.attempt}.{_WORDS[outcome.success]}{'.fatal' if outcome.fatal else ''}.json"
        self._writer.write_state(directory / name, checkpoint, durable=True)
        for other in self._names(directory):
            if other != name and other.split(".")[0] == f"a{outcome.attempt}":
                (directory / other).unlink(missing_ok=True)

    def finished(self, task_id: str) -> list[FinishedAttempt]:
        """Outcomes by attempt number."""
        found: dict[int, FinishedAttempt] = {}
        for name in self._names(self._task_dir(task_id)):
            match = _NAME.match(name)
            assert match is not None
            attempt = int(match["attempt"])
            success, fatal = _SUCCESS[match["success"]], bool(match["fatal"])
            found[attempt] = FinishedAttempt(attempt=attempt, success=success, fatal=fatal)
        return [found[attempt] for attempt in sorted(found)]

    def load(self, task_id: str) -> dict[int, AttemptCheckpoint]:
        """The checkpoints of a task by attempt number; RecordError when one is broken."""
        directory = self._task_dir(task_id)
        loaded = (read_model(directory / name, AttemptCheckpoint) for name in self._names(directory))
        return {item.attempt: item for item in loaded}

    def find(self, task_id: str, attempt: int) -> AttemptCheckpoint | None:
        """The checkpoint of one attempt, if it is finished."""
        directory = self._task_dir(task_id)
        for name in self._names(directory):
            if name.split(".")[0] == f"a{attempt}":
                return read_model(directory / name, AttemptCheckpoint)
        return None

    def stems(self) -> set[str]:
        """File stems of all tasks with checkpoints, from one look at the directory."""
        try:
            return set(os.listdir(self._directory))
        except FileNotFoundError:
            return set()

    def remove(self, task_id: str) -> None:
        """Forget a task whose record is written."""
        shutil.rmtree(self._task_dir(task_id), ignore_errors=True)

    def _task_dir(self, task_id: str) -> Path:
        return self._directory / task_file_stem(task_id)

    def _names(self, directory: Path) -> list[str]:
        """Checkpoint names, the newest outcome of an attempt last (two exist only after a kill)."""
        try:
            with os.scandir(directory) as scan:
                files = [entry for entry in scan if _NAME.match(entry.name)]
                return [entry.name for entry in sorted(files, key=lambda entry: entry.stat().st_mtime_ns)]
        except FileNotFoundError:
            return []
