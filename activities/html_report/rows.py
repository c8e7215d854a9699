"""The task table: one row a task, small enough that 20,000 of them are no burden."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import JsonValue

from ...contracts.issues import Severity
from ...contracts.metrics import AggregationSpec, MetricKind, MetricReport, MetricState, UsageTotals
from ...contracts.records import TaskRecord
from ..metrics.browsed import observe_browsed, plan_of
from ..metrics.report import reduce_all
from ..metrics.text import one_line
from ..metrics.usage import UsageMeter
from ..redaction import REDACTOR
from ..store import BrowsedTask, UnclassifiedTask
from .markup import file_address
from .texts import as_text

MAX_CODES = 8
_SNIPPET = 160

RESULTS = {
    "pass": "passed",
    "partial": "partly passed",
    "fail": "failed",
    "score": "scored",
    "unscored": "not scored",
    "invalid": "invalidated",
    "not_run": "not finished",
    "damaged": "damaged record",
    "older": "older record",
}
"""What became of a task, in the order of the legend."""

COLUMNS = (
    *("id", "category", "result", "score", "attempts", "severity", "codes", "reason"),
    *("steps", "tokens", "cost", "seconds", "retries", "file", "answer"),
)


@dataclass
class RowCounts:
    """Totals over all rows, for the page's summary."""

    results: Counter[str] = field(default_factory=Counter)
    issues: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Tasks by severity and code."""
    usage: UsageMeter = field(default_factory=UsageMeter)
    seconds: float = 0.0


class RowMaker:
    """Makes the rows of one run and counts them."""

    def __init__(self, report: MetricReport | None, base: Path) -> None:
        self._report = report
        self._series = report.headline() if report else None
        self._base = base
        self.counts = RowCounts()

    def row(self, task: BrowsedTask) -> list[JsonValue]:
        """The values of :data:`COLUMNS`."""
        result, score, reason = self._result(task)
        self.counts.results[result] += 1
        record = task.record if isinstance(task.record, TaskRecord) else None
        usage, seconds, worst = UsageTotals(), 0.0, ""
        codes: list[str] = []
        if record is not None:
            usage, seconds = self._usage(record)
            codes, worst = self._issues(record)
        return [
            one_line(REDACTOR.known_text(task.task_id)),
            category_label(task.category),
            result,
            score,
            len(record.attempts) if record else None,
            worst,
            list[JsonValue](codes),
            one_line(REDACTOR.text(reason), 300),
            usage.steps if record else None,
            usage.prompt_tokens.total + usage.completion_tokens.total if usage.calls else None,
            usage.cost_usd.total if usage.cost_usd.calls else None,
            round(seconds, 3) if seconds else None,
            record.retry_count if record else None,
            file_address(os.path.relpath(task.path, self._base)) if task.path else "",
            _answer(record),
        ]

    def _result(self, task: BrowsedTask) -> tuple[str, float | None, str]:
        """What became of the task, its number in the headline, and why it has none."""
        if isinstance(task.record, UnclassifiedTask):
            return "older", None, task.record.reason
        if task.problem:
            return "damaged", None, task.problem
        if task.record is None:
            return "not_run", None, ""
        if self._report is None or self._series is None:
            return "unscored", None, "the run has no report"
        observed = observe_browsed(task, self._series, self._report.attempts.k)
        spec: AggregationSpec = self._report.aggregation
        [(_, reduced)] = reduce_all([observed], plan_of(self._series), spec)
        reason = reduced.absence.reason if reduced.absence else ""
        if reduced.state is MetricState.INVALIDATED:
            return "invalid", None, reason
        if reduced.value is None:
            return "unscored", None, reason
        if self._series.kind is MetricKind.SCALAR:
            return "score", reduced.value, ""
        return {0.0: "fail", 1.0: "pass"}.get(reduced.value, "partial"), reduced.value, ""

    def _usage(self, record: TaskRecord) -> tuple[UsageTotals, float]:
        meter = UsageMeter()
        meter.add(record)
        self.counts.usage.add(record)
        seconds = sum(
            value
            for attempt in record.attempts.values()
            for value in attempt.meta.timings.values()
            if 0 <= value < 1e12
        )
        self.counts.seconds += seconds
        return meter.totals, seconds

    def _issues(self, record: TaskRecord) -> tuple[list[str], str]:
        found: dict[str, Severity] = {}
        for attempt in record.attempts.values():
            for issue in attempt.issues:
                known = found.get(issue.code)
                if known is None or _rank(issue.severity) < _rank(known):
                    found[issue.code] = issue.severity
        ordered = sorted(found, key=lambda code: (_rank(found[code]), code))[:MAX_CODES]
        codes = [one_line(code, 60) for code in ordered]
        for name, code in zip(ordered, codes, strict=True):
            self.counts.issues[found[name].value, code] += 1
        worst = found[ordered[0]].value if ordered else ""
        return codes, worst


def category_label(category: str) -> str:
    """A category as rows, charts and filters know it."""
    return one_line(REDACTOR.known_text(category), 80)


def _rank(severity: Severity) -> int:
    return list(Severity).index(severity)


def _answer(record: TaskRecord | None) -> str:
    """The beginning of the first answer, so that answers can be searched without opening tasks."""
    attempts = record.attempts.values() if record else ()
    answer = next((attempt.final_answer for attempt in attempts if attempt.final_answer is not None), None)
    text = answer if isinstance(answer, str) else as_text(answer)
    # Masked before it is cut: half a secret would no longer be recognised.
    return one_line(REDACTOR.known_text(text), _SNIPPET)
