"""The files about the run as a whole: run_info, params, metrics, summary."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from ...contracts.comparison import Comparison
from ...contracts.metrics import MetricReport
from ...contracts.records import AnalysisSummary, RunInfo, RunParams, RunStatus
from .files import file_lock, find_model, read_json, read_model, remove_leftovers, write_atomic
from .legacy import read_run_info
from .writer import MaskingWriter

REFRESH_SECONDS = 30.0
_WRITTEN_SECONDS = 5.0
"""Longer than any write takes: what is unfinished after that is of a worker that was killed. A slower writer
finds its file gone and is tried again."""
_PLANS = "resolved_execution_plans"
_PLAN_EVENT = b'"event":"execution_plan_resolved"'


def timestamp() -> str:
    """Now, in ISO 8601 with the local time zone, to the second."""
    return datetime.now(UTC).astimezone().isoformat(timespec="seconds")


class RunFiles:
    """Written rarely; ``run_info.json`` under a lock, since several workers may refresh it."""

    def __init__(self, run_dir: Path, writer: MaskingWriter) -> None:
        self._run_info = run_dir / "run_info.json"
        self._details = run_dir / "details"
        self._retry_details = run_dir / "retry_details"
        self._params = run_dir / "params.json"
        self._metrics = run_dir / "metrics.json"
        self._summary = run_dir / "summary.md"
        self._comparison = run_dir / "comparison.json"
        self._analysis = run_dir / "analysis_summary.json"
        self._analysis_text = run_dir / "analysis_summary.md"
        self._progress = run_dir / "progress.jsonl"
        self._head_file = run_dir / ".state" / "run_info.json"
        self._lock = run_dir / ".state" / "locks" / "run_info.lock"
        self._writer = writer
        self._cost = 0.0

    def start_run_info(self, info: RunInfo) -> None:
        """Write what was asked for; a repetition keeps the first start time and the plans."""
        with file_lock(self._lock):
            started_at = self._head().get("started_at", info.started_at)
            info = info.model_copy(update={"started_at": started_at, "resolved_execution_plans": {}})
            head = info.model_dump(mode="json", exclude_none=True, exclude={"resolved_execution_plans"})
            self._write_with_plans(head)

    def finish_run_info(self, status: RunStatus, error: str = "") -> None:
        """Add the plans and how the run ended; a repetition replaces the end."""
        self._update({"status": status, "finished_at": timestamp(), "error": error or None})
        for directory in (self._run_info.parent, self._details, self._retry_details):
            remove_leftovers(directory, older_than_seconds=_WRITTEN_SECONDS)

    def refresh_run_info(self) -> bool:
        """Add the plans resolved so far, unless that was done a short while ago.

        The plans come from ``progress.jsonl``. Rewriting them for every attempt would cost the
        square of the number of tasks; so this takes at most a fiftieth of the time.
        """
        try:
            age = time.time() - self._run_info.stat().st_mtime  # of whichever worker wrote it last
        except FileNotFoundError:
            return False
        if age < max(REFRESH_SECONDS, 50 * self._cost):
            return False
        begun = time.monotonic()
        self._update({})
        self._cost = time.monotonic() - begun
        return True

    def run_info(self) -> RunInfo:
        """What ``run_info.json`` says, of whatever known version it is."""
        return read_run_info(self._run_info)

    def save_params(self, params: RunParams) -> None:
        """Write ``params.json``."""
        self._writer.write_record(self._params, params, durable=True)

    def params(self) -> RunParams:
        """What ``params.json`` says."""
        return read_model(self._params, RunParams)

    def save_metrics(self, report: MetricReport) -> None:
        """Write ``metrics.json``."""
        self._writer.write_record(self._metrics, report, durable=True)

    def metrics(self) -> MetricReport:
        """What ``metrics.json`` says."""
        return read_model(self._metrics, MetricReport)

    def save_comparison(self, comparison: Comparison) -> None:
        """Write ``comparison.json``."""
        self._writer.write_record(self._comparison, comparison, durable=True)

    def comparison(self) -> Comparison | None:
        """What ``comparison.json`` says; ``None`` for a run that was compared with no other."""
        return find_model(self._comparison, Comparison)

    def save_summary(self, text: str) -> str:
        """Write ``summary.md``; returns its path relative to the run directory."""
        self._write_text(self._summary, text)
        return self._summary.name

    def save_analysis(self, summary: AnalysisSummary, text: str) -> None:
        """Write ``analysis_summary.json`` and, with ``text``, ``analysis_summary.md``."""
        self._writer.write_record(self._analysis, summary, durable=True)
        self._write_text(self._analysis_text, text)

    def analysis(self) -> AnalysisSummary:
        """What ``analysis_summary.json`` says."""
        return read_model(self._analysis, AnalysisSummary)

    def _write_text(self, path: Path, text: str) -> None:
        masked = self._writer.redactor.known_text(text)
        write_atomic(path, masked.encode("utf-8", "replace"), durable=True)

    def _update(self, values: dict[str, Any]) -> None:
        with file_lock(self._lock):
            head = {**self._head(), **values}
            self._write_with_plans({key: value for key, value in head.items() if value is not None})

    def _head(self) -> dict[str, Any]:
        """``run_info.json`` without its plans, which are thousands of maps in a large run."""
        head = read_json(self._head_file)
        if not isinstance(head, dict):  # a copy without the hidden files, or not started yet
            head = dict(read_json(self._run_info) or {})
            head.pop(_PLANS, None)
        return head

    def _write_with_plans(self, head: dict[str, Any]) -> None:
        self._writer.write_state(self._head_file, head, durable=False)
        self._write({**head, _PLANS: self._plans()})

    def _plans(self) -> dict[str, dict[str, dict[str, Any]]]:
        """The plan summaries by task and attempt."""
        plans: dict[str, dict[str, dict[str, Any]]] = {}
        same: dict[bytes, dict[str, Any]] = {}
        for event in self._plan_events():
            attempts = plans.setdefault(event["task_id"], {"attempts": {}})["attempts"]
            # Nearly all plans of a run are equal: kept once, they take a hundredth of the memory.
            payload = event["payload"]
            attempts[str(event["attempt"])] = same.setdefault(orjson.dumps(payload), payload)
        return plans

    def _plan_events(self) -> Iterator[dict[str, Any]]:
        try:
            with open(self._progress, "rb") as file:
                for line in file:
                    if _PLAN_EVENT in line and line.endswith(b"\n"):
                        yield orjson.loads(line)
        except FileNotFoundError:
            return

    def _write(self, value: dict[str, Any]) -> None:
        self._writer.write_record(self._run_info, value, durable=True)
