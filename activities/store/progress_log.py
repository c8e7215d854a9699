"""``progress.jsonl`` and ``progress.json`` on disk, shared by several processes under a lock."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from ...contracts.errors import RecordError
from ...contracts.progress import apply_event, snapshot_of
from ...contracts.records import ProgressEvent, ProgressSnapshot
from ..redaction import Redactor
from .files import encode, file_lock, find_model, write_all, write_json_atomic
from .key_set import KeySet

SNAPSHOT_SECONDS = 0.5
_CHUNK = 1 << 20


class ProgressLog:
    """Appends events and keeps the snapshot. Blocking; one thread of a process uses it at a time.

    A line is in the page cache when ``append`` returns: it survives a killed process, not a power cut.
    """

    def __init__(self, run_dir: Path, redactor: Redactor) -> None:
        self._events = run_dir / "progress.jsonl"
        self._snapshot_path = run_dir / "progress.json"
        self._lock = run_dir / ".state" / "locks" / "progress.lock"
        self._redactor = redactor
        self._keys = KeySet()
        self._offset = 0
        self._snapshot = ProgressSnapshot(run_id=run_dir.name)
        self._written_seq = 0
        self._written_at = 0.0

    @property
    def stale(self) -> bool:
        """True when ``progress.json`` is behind what was appended."""
        return self._snapshot.last_seq > self._written_seq

    def due_in(self) -> float:
        """Seconds until a stale snapshot may be written again."""
        return max(0.0, self._written_at + SNAPSHOT_SECONDS - time.monotonic())

    def append(self, events: Iterable[ProgressEvent], *, write_snapshot: bool = False) -> None:
        """Append what was not written yet, by anyone; OSError when the file cannot be written."""
        with file_lock(self._lock):
            descriptor = os.open(self._events, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
            try:
                self._catch_up(descriptor)
                self._append_new(descriptor, events)
            finally:
                os.close(descriptor)
            over = self._snapshot.status not in ("running", "summarizing")
            if self.stale and (write_snapshot or over or self.due_in() == 0.0):
                self._write_snapshot()

    def _catch_up(self, descriptor: int) -> None:
        """Read what others appended, and cut off the line that a killed writer left unfinished.

        Under the lock nobody is writing, so an unfinished line has no owner; its event was never
        confirmed, and whoever sent it sends it again.
        """
        size = os.fstat(descriptor).st_size
        if size < self._offset:
            raise RecordError(f"{self._events} has become shorter; it is written by somebody else")
        rest = b""
        while self._offset + len(rest) < size:
            chunk = os.pread(descriptor, _CHUNK, self._offset + len(rest))
            if not chunk:
                break
            complete, newline, tail = (rest + chunk).rpartition(b"\n")
            if newline:
                self._take(complete.split(b"\n"))
                self._offset += len(complete) + 1
            rest = tail
        if rest:
            os.ftruncate(descriptor, self._offset)

    def _take(self, lines: list[bytes]) -> None:
        for event in parse_lines(lines):
            if self._keys.add(event.key):
                apply_event(self._snapshot, event)

    def _append_new(self, descriptor: int, events: Iterable[ProgressEvent]) -> None:
        added, lines, seq = [], [], self._snapshot.last_seq
        batch: set[str] = set()
        for event in events:
            if event.key in self._keys or event.key in batch:
                continue
            batch.add(event.key)
            seq += 1
            payload = self._redactor.value(event.payload) if event.payload else event.payload
            event = event.model_copy(update={"seq": seq, "payload": payload})
            added.append(event)
            lines.append(encode(event))
        if not added:
            return
        data = b"".join(lines)
        os.lseek(descriptor, self._offset, os.SEEK_SET)
        try:
            write_all(descriptor, data)
        except OSError:
            os.ftruncate(descriptor, self._offset)
            raise
        self._offset += len(data)
        for event in added:
            self._keys.add(event.key)
            apply_event(self._snapshot, event)

    def _write_snapshot(self) -> None:
        write_json_atomic(self._snapshot_path, self._snapshot, durable=False, indent=True)
        self._written_seq, self._written_at = self._snapshot.last_seq, time.monotonic()


def restart_progress(run_dir: Path) -> None:
    """Remove both progress files, for an analysis that begins its own; OSError when that fails."""
    with file_lock(run_dir / ".state" / "locks" / "progress.lock"):
        for name in ("progress.jsonl", "progress.json"):
            (run_dir / name).unlink(missing_ok=True)


def parse_lines(lines: Iterable[bytes]) -> Iterator[ProgressEvent]:
    """The events of complete lines; one that is none (cut off, completed later) is left out."""
    for line in lines:
        try:
            yield ProgressEvent.model_validate_json(line)
        except ValidationError:
            continue


def read_events(path: Path) -> Iterator[ProgressEvent]:
    """The events of a ``progress.jsonl``, also while it is being written. Each key comes once."""
    keys = KeySet()
    try:
        with open(path, "rb") as file:
            for event in parse_lines(line for line in file if line.endswith(b"\n")):
                if keys.add(event.key):
                    yield event
    except FileNotFoundError:
        return


def rebuild_snapshot(run_dir: Path) -> ProgressSnapshot:
    """``progress.json`` computed from ``progress.jsonl`` alone."""
    return snapshot_of(run_dir.name, read_events(run_dir / "progress.jsonl"))


def read_snapshot(run_dir: Path) -> ProgressSnapshot | None:
    """The snapshot as last written, at most half a second old; ``None`` before the first event."""
    return find_model(run_dir / "progress.json", ProgressSnapshot)
