"""What a page tells of a run beside its numbers; read so that a damaged file costs its own part only."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from pydantic import JsonValue

from ...contracts.errors import AgentCompassError, RecordError
from ...contracts.metrics import MetricReport
from ...contracts.records import AnalysisSummary, RunInfo
from ..recorded_report import find_report
from ..redaction import REDACTOR
from ..store import RunStore, read_snapshot
from ..store.writer import CONTENT_KEYS


@dataclass
class PageFacts:
    """One run. Everything may be missing but its directory."""

    run_dir: Path
    info: RunInfo | None = None
    report: MetricReport | None = None
    analysis: AnalysisSummary | None = None
    reused_tasks: int = 0
    notices: list[str] = field(default_factory=list)
    """What could not be read, and what a reader has to know."""

    def component(self, kind: str) -> str:
        """The id of the run's model, benchmark, harness or environment; empty when it is not known."""
        part = self.info.request.get(kind) if self.info else None
        value = part.get("id") if isinstance(part, dict) else None
        return value if isinstance(value, str) else ""

    @property
    def benchmark(self) -> str:
        """Of the report, else of the request."""
        return self.report.benchmark if self.report else self.component("benchmark")

    @property
    def status(self) -> str:
        """How the run ended; ``not over`` while it has not."""
        return (self.info.status if self.info else None) or "not over"

    @property
    def request(self) -> dict[str, JsonValue]:
        """The merged request, secrets masked once more."""
        masked: dict[str, JsonValue] = REDACTOR.value(self.info.request if self.info else {}, CONTENT_KEYS)
        return masked

    @property
    def duration_seconds(self) -> float | None:
        """From start to end, when both are known."""
        if self.info is None or not self.info.finished_at:
            return None
        try:
            begun, ended = (
                datetime.fromisoformat(text) for text in (self.info.started_at, self.info.finished_at)
            )
            return (ended - begun).total_seconds()
        except (ValueError, TypeError):  # not a time, or one with a zone and one without
            return None


def read_facts(store: RunStore) -> PageFacts:
    """Everything about the run but its tasks."""
    facts = PageFacts(store.run_dir)
    try:
        facts.info = store.files.run_info()
        _know_secrets(facts.info.request)
    except RecordError as error:
        facts.notices.append(_told(store, error))
    try:
        found = find_report(store)
        facts.report = found.report
        if found.note:
            facts.notices.append(f"The numbers were {found.note}.")
    except AgentCompassError as error:
        facts.notices.append(f"There are no numbers: {_told(store, error)}")
    try:
        facts.analysis = (
            store.files.analysis() if (store.run_dir / "analysis_summary.json").exists() else None
        )
        snapshot = read_snapshot(store.run_dir)
        facts.reused_tasks = snapshot.reused_tasks if snapshot else 0
    except RecordError as error:
        facts.notices.append(_told(store, error))
    return facts


def _know_secrets(value: JsonValue) -> None:
    """Mask the values of variables that the request refers to, where this process has them.

    Files are not read: the request may come from anywhere.
    """
    if isinstance(value, str) and value.startswith("env:"):
        REDACTOR.register(os.environ.get(value.removeprefix("env:"), ""))
    elif isinstance(value, dict):
        for item in value.values():
            _know_secrets(item)
    elif isinstance(value, list):
        for item in value:
            _know_secrets(item)


def _told(store: RunStore, error: Exception) -> str:
    return REDACTOR.text(str(error).replace(f"{store.run_dir}/", "").replace(str(store.run_dir), "the run"))
