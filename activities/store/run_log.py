"""The log file of a run: ``logs/YYYYMMDD_HHMMSS.log``.

A worker serves many runs at once. One handler on the root logger writes each record to the run
that it belongs to: the one named by the record's ``run_dir`` (``extra={"run_dir": …}``), else the
one in whose scope it was made. Any other record goes to no run's file. Several processes append
to one file, a whole record at a time.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from ...contracts.errors import RecordError
from ..redaction import REDACTOR, Redactor
from .files import append
from .run_store import open_store

PACKAGE = "agentcompass"
_KEPT_TARGETS = 256
_COMPLAINT_SECONDS = 60.0
_MOST_HELD = 1000
_run_dir: ContextVar[str | None] = ContextVar("agentcompass_run_log", default=None)
_held: ContextVar[list[logging.LogRecord] | None] = ContextVar("agentcompass_held_log", default=None)


@contextlib.contextmanager
def run_log_scope(run_dir: str | Path) -> Iterator[None]:
    """Records made inside, also in tasks and ``asyncio.to_thread`` started inside, go to that run's log."""
    token = _run_dir.set(str(run_dir))
    try:
        yield
    finally:
        _run_dir.reset(token)


@contextlib.contextmanager
def records_held() -> Iterator[list[logging.LogRecord]]:
    """Records made inside are kept for a run that has no directory yet: see :func:`log_held`."""
    records: list[logging.LogRecord] = []
    token = _held.set(records)
    try:
        yield records
    finally:
        _held.reset(token)


def log_held(records: list[logging.LogRecord], run_dir: str | Path) -> None:
    """Write them to the log of the run that they turned out to belong to."""
    handler = install_run_log()
    for record in records:
        record.run_dir = str(run_dir)
        handler.handle(record)


def log_path(run_dir: Path) -> Path:
    """The log file of a run directory: the latest there, made when it was reserved."""
    names = sorted(path.name for path in (run_dir / "logs").glob("*.log"))
    return run_dir / "logs" / (names[-1] if names else f"{run_dir.name}.log")


def install_run_log(redactor: Redactor = REDACTOR) -> RunLogHandler:
    """Add the handler to the root logger, once a process. Console handlers keep a level of their own."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, RunLogHandler):
            return handler
    handler = RunLogHandler(redactor)
    logging.getLogger().addHandler(handler)
    logging.getLogger(PACKAGE).setLevel(logging.DEBUG)
    return handler


class RunLogFormatter(logging.Formatter):
    """``HH:MM:SS LEVEL    logger-name                          message``, secrets masked."""

    def __init__(self, redactor: Redactor = REDACTOR) -> None:
        super().__init__("%(asctime)s %(levelname)-8s %(name)-36s %(message)s", "%H:%M:%S")
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """The record with its traceback, masked as a whole."""
        return self._redactor.text(super().format(record))


@dataclass(frozen=True)
class _Target:
    path: Path
    level: int


class RunLogHandler(logging.Handler):
    """Writes records of runs at the run's ``file_log_level``; of foreign loggers only warnings and worse."""

    def __init__(self, redactor: Redactor = REDACTOR) -> None:
        super().__init__()
        self.setFormatter(RunLogFormatter(redactor))
        self._targets: dict[str, _Target] = {}
        self._complained_at = float("-inf")

    def emit(self, record: logging.LogRecord) -> None:
        """Append the record; a full disk costs the record, not the run (see ``Handler.handleError``)."""
        run_dir = getattr(record, "run_dir", None) or _run_dir.get()
        own = record.name == PACKAGE or record.name.startswith(PACKAGE + ".")
        if not own and record.levelno < logging.WARNING:
            return
        if run_dir is None:
            held = _held.get()
            if held is not None and len(held) < _MOST_HELD:
                held.append(record)
            return
        try:
            target = self._target(str(run_dir))
            if record.levelno >= target.level:
                append(target.path, (self.format(record) + "\n").encode("utf-8", "replace"))
        except Exception:  # the contract of logging: a handler never raises into the code that logs
            # A full disk fails every record: one complaint a minute tells as much.
            if time.monotonic() - self._complained_at >= _COMPLAINT_SECONDS:
                self._complained_at = time.monotonic()
                self.handleError(record)

    def _target(self, run_dir: str) -> _Target:
        target = self._targets.get(run_dir)
        if target is not None:
            return target
        path = log_path(Path(run_dir))
        try:
            level = logging.getLevelNamesMapping()[open_store(run_dir).request_state().runtime.file_log_level]
        except RecordError:
            return _Target(path, logging.DEBUG)  # the request is not written yet: asked again next time
        while len(self._targets) >= _KEPT_TARGETS:
            self._targets.pop(next(iter(self._targets)))
        return self._targets.setdefault(run_dir, _Target(path, level))
