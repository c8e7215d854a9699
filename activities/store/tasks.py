"""The task list: one line of JSON a task, with an index, so that any task is read in one step.

``tasks.jsonl`` holds the tasks, ``tasks.index`` the 8-byte offsets of their lines and of the end,
``tasks.entries.jsonl`` what scheduling needs. The entries are written last: where they are, the
list is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Sequence
from pathlib import Path

import orjson

from ...contracts.errors import RecordError
from ...contracts.task import TaskSpec
from ..redaction import Redactor
from .files import encode, parse_model, read_bytes, write_atomic
from .state import TaskEntry

_OFFSET = struct.Struct("<Q")


def task_digest(task: TaskSpec) -> str:
    """sha256 of a task's content: equal for equal tasks, whatever the order of their keys."""
    content = task.model_dump(mode="json", exclude_defaults=True)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class TaskList:
    """The tasks of a run, in the order in which they are scheduled. Written once, then only read."""

    def __init__(self, state_dir: Path, redactor: Redactor) -> None:
        self._tasks = state_dir / "tasks.jsonl"
        self._index = state_dir / "tasks.index"
        self._entries = state_dir / "tasks.entries.jsonl"
        self._redactor = redactor
        self._loaded: tuple[TaskEntry, ...] | None = None

    def save(self, tasks: Sequence[TaskSpec]) -> None:
        """Write the list; safe to repeat."""
        offsets, lines, entries, offset = bytearray(), [], [], 0
        for index, task in enumerate(tasks):
            line = encode(task)
            if self._redactor.known_in(line):
                line = encode(self._redactor.known(task.model_dump(mode="json")))
            offsets += _OFFSET.pack(offset)
            lines.append(line)
            offset += len(line)
            entries.append(encode([index, task.task_id, task.category, task_digest(task)]))
        offsets += _OFFSET.pack(offset)
        write_atomic(self._tasks, b"".join(lines), durable=True)
        write_atomic(self._index, bytes(offsets), durable=True)
        write_atomic(self._entries, b"".join(entries), durable=True)
        self._loaded = None

    def read(self, index: int) -> TaskSpec:
        """Task ``index``, without touching the others."""
        if index < 0:
            raise RecordError(f"{self._tasks}: there is no task {index}")
        start, end = self._bounds(index)
        # Plain descriptors: every phase of every attempt comes by here.
        descriptor = os.open(self._tasks, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not start <= end <= os.fstat(descriptor).st_size:
                raise RecordError(f"{self._index}: not an index of {self._tasks.name}")
            line = os.pread(descriptor, end - start, start)
        finally:
            os.close(descriptor)
        return parse_model(line, TaskSpec, self._tasks)

    def _bounds(self, index: int) -> tuple[int, int]:
        try:
            descriptor = os.open(self._index, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise RecordError(f"{self._index}: no such file; the task list was never written") from None
        try:
            pair = os.pread(descriptor, 2 * _OFFSET.size, index * _OFFSET.size)
        finally:
            os.close(descriptor)
        if len(pair) != 2 * _OFFSET.size:
            raise RecordError(f"{self._tasks}: there is no task {index}")
        return _OFFSET.unpack_from(pair)[0], _OFFSET.unpack_from(pair, _OFFSET.size)[0]

    def entries(self) -> tuple[TaskEntry, ...]:
        """All entries, read once and kept."""
        if self._loaded is None:
            data = read_bytes(self._entries)
            if data is None:
                raise RecordError(f"{self._entries}: no such file; the task list was never written")
            try:
                loaded = tuple(_entry(orjson.loads(line)) for line in data.splitlines())
            except (orjson.JSONDecodeError, TypeError) as error:
                raise RecordError(f"{self._entries}: not a task list: {error}") from None
            if [entry.index for entry in loaded] != list(range(len(loaded))):
                raise RecordError(f"{self._entries}: not a task list: its entries are not in their order")
            if len({entry.task_id for entry in loaded}) != len(loaded):
                raise RecordError(f"{self._entries}: not a task list: a task id occurs twice")
            self._loaded = loaded
        return self._loaded

    def exists(self) -> bool:
        """True when the list was written completely."""
        return self._entries.exists()


def _entry(row: object) -> TaskEntry:
    """One line of the entries. Raises TypeError for anything else."""
    match row:
        case [int() as index, str() as task_id, str() as category, str() as digest] if task_id:
            return TaskEntry(index, task_id, category, digest)
        case _:
            raise TypeError("a line is not an index, a task id, a category and a digest")
