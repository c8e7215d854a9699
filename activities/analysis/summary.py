"""Totals over a run: how often each analyzer gave each label."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ...contracts.analyzer import AnalysisFinding, AnalyzerResult
from ...contracts.metrics import UNCATEGORIZED
from ...contracts.records import (
    AnalysisSummary,
    AnalyzerTotals,
    LabelTotals,
    TaskRecord,
    ValueTotals,
)

MAX_EXAMPLES = 10
MAX_ERRORS = 5
MAX_LABELS = 1000
"""Labels of one analyzer that are told apart; an analyzer that invents labels must not fill the memory."""
OTHER_LABELS = "(other labels)"


@dataclass
class _Label:
    totals: LabelTotals
    last_task: str = ""


@dataclass
class _Analyzer:
    totals: AnalyzerTotals
    labels: dict[str, _Label] = field(default_factory=dict)


class AnalysisMeter:
    """Adds up task records, one at a time."""

    def __init__(self) -> None:
        self._tasks = 0
        self._attempts = 0
        self._analyzed = 0
        self._analyzers: dict[str, _Analyzer] = {}

    def add(self, record: TaskRecord) -> None:
        """Count the analysis of every attempt of ``record``."""
        self._tasks += 1
        for attempt in record.attempts.values():
            self._attempts += 1
            self._analyzed += bool(attempt.analysis_result)
            for name, result in attempt.analysis_result.items():
                self._add_result(record, name, result)

    def summary(self, benchmark: str) -> AnalysisSummary | None:
        """The totals so far; ``None`` when nothing was analysed."""
        if not self._analyzed:
            return None
        analyzers = []
        for _, analyzer in sorted(self._analyzers.items()):
            labels = [item.totals for item in analyzer.labels.values()]
            labels.sort(key=lambda item: (-item.attempts, item.label))
            analyzers.append(analyzer.totals.model_copy(update={"labels": labels}))
        return AnalysisSummary(
            benchmark=benchmark,
            tasks=self._tasks,
            attempts=self._attempts,
            analyzed_attempts=self._analyzed,
            analyzers=analyzers,
        )

    def _add_result(self, record: TaskRecord, name: str, result: AnalyzerResult) -> None:
        analyzer = self._analyzers.setdefault(name, _Analyzer(AnalyzerTotals(analyzer=name)))
        totals = analyzer.totals
        totals.attempts += 1
        if result.error is not None:
            totals.failed += 1
            if result.error not in totals.errors and len(totals.errors) < MAX_ERRORS:
                totals.errors.append(result.error)
        seen: set[str] = set()
        for finding in result.findings:
            label = self._label(analyzer, finding.label)
            _add_finding(label.totals, finding)
            if label.totals.label not in seen:
                seen.add(label.totals.label)
                _add_attempt(label, record)

    def _label(self, analyzer: _Analyzer, name: str) -> _Label:
        if name not in analyzer.labels and len(analyzer.labels) >= MAX_LABELS:
            name = OTHER_LABELS
        return analyzer.labels.setdefault(name, _Label(LabelTotals(label=name)))


def _add_finding(totals: LabelTotals, finding: AnalysisFinding) -> None:
    totals.findings += 1
    value = finding.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return
    number = float(value)
    values = totals.values or ValueTotals(minimum=number, maximum=number)
    totals.values = ValueTotals(
        count=values.count + 1,
        total=round(values.total + number, 6),
        minimum=min(values.minimum, number),
        maximum=max(values.maximum, number),
    )


def _add_attempt(label: _Label, record: TaskRecord) -> None:
    totals = label.totals
    totals.attempts += 1
    category = record.category or UNCATEGORIZED
    totals.categories[category] = totals.categories.get(category, 0) + 1
    if label.last_task != record.task_id:  # the attempts of a task come one after the other
        label.last_task = record.task_id
        totals.tasks += 1
        if len(totals.examples) < MAX_EXAMPLES:
            totals.examples.append(record.task_id)
