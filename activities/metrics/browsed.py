"""What a recorded task contributes to one series, for readers that have the report but not the benchmark."""

from __future__ import annotations

from ...contracts.issues import Issue, IssuePhase, Severity
from ...contracts.metrics import MetricContract, MetricSeries, TaskObservations
from ...contracts.records import TaskRecord
from ..classification import make_issue
from ..store import BrowsedTask, UnclassifiedTask
from .damage import UNCLASSIFIED_RECORD, UNREADABLE_RECORD
from .observations import observe_task
from .series import SeriesPlan


def plan_of(series: MetricSeries) -> SeriesPlan:
    """How ``series`` was made."""
    return SeriesPlan(series.metric, series.kind, series.reducer, series.k)


def observe_browsed(task: BrowsedTask, series: MetricSeries, k: int) -> TaskObservations:
    """What ``task`` contributes to ``series`` of a run of ``k`` attempts; other metrics are not looked at."""
    if not isinstance(task.record, TaskRecord):
        older = isinstance(task.record, UnclassifiedTask)
        reason = task.record.reason if isinstance(task.record, UnclassifiedTask) else task.problem
        issue = _left_out(reason, UNCLASSIFIED_RECORD if older else UNREADABLE_RECORD)
        return TaskObservations(
            task_id=task.task_id, category=task.category, expected_attempts=k, issue=issue
        )
    # Not validated: a report on disk may name a metric in any way.
    contract = MetricContract.model_construct(primary=series.metric, metrics={series.metric: series.kind})
    attempts = {
        number: attempt.model_copy(
            update={
                "metrics": {name: value for name, value in attempt.metrics.items() if name == series.metric}
            }
        )
        for number, attempt in task.record.attempts.items()
    }
    return observe_task(task.record.model_copy(update={"attempts": attempts}), contract)


def _left_out(reason: str, code: str) -> Issue | None:
    return make_issue(Severity.ERROR, IssuePhase.EVALUATE, code, reason) if reason else None
