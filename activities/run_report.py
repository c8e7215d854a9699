"""The report of a run from its records alone, be it finished or not."""

from __future__ import annotations

from typing import Any

from ..contracts.benchmark import Benchmark
from ..contracts.errors import RecordError, UsageError
from ..contracts.issues import Issue, IssuePhase, Severity
from ..contracts.metrics import MetricReport, TaskObservations
from .analysis import AnalysisMeter
from .classification import describe, make_issue, one_line
from .metrics import UNCLASSIFIED_RECORD, UNREADABLE_RECORD, UsageMeter, build_report, observe_task
from .results import of_type
from .store import RunStore, UnclassifiedRecordError


def compute_report(
    store: RunStore, benchmark: Benchmark[Any], analysis: AnalysisMeter
) -> tuple[MetricReport, list[TaskObservations]]:
    """The report over all selected tasks, also those without a record; one record in memory at a time.

    The records are added up in ``analysis``, too: they are read once.
    """
    attempts = store.request().execution.attempts
    meter = UsageMeter()
    observed: list[TaskObservations] = []
    for entry, record in store.iter_tasks():
        if record is None:
            missing = TaskObservations(
                task_id=entry.task_id,
                category=entry.category,
                expected_attempts=attempts.k,
                issue=unreadable(store, entry.task_id),
            )
            observed.append(missing)
            continue
        meter.add(record)
        analysis.add(record)
        observed.append(observe_task(record, benchmark.metric_contract))
    benchmark_id, aggregation = store.request().benchmark.id, benchmark.aggregation()
    report = build_report(benchmark_id, benchmark.metric_contract, attempts, observed, aggregation)
    report = report.model_copy(update={"usage": meter.totals})
    try:
        adjusted = of_type(MetricReport, benchmark.aggregate_metrics(observed, report), "aggregate_metrics")
        return MetricReport.model_validate(adjusted.model_dump(warnings=False)), observed
    except Exception as error:  # extension code may raise anything; its number would be the official one
        raise UsageError(
            f"benchmark {benchmark.id!r}: aggregate_metrics failed: {one_line(describe(error))}"
        ) from error


def unreadable(store: RunStore, task_id: str) -> Issue | None:
    """What is wrong with the record of a task that has one; ``None`` when it has none."""
    try:
        store.task_record(task_id)
    except RecordError as error:
        older = isinstance(error, UnclassifiedRecordError)
        message = str(error).replace(f"{store.run_dir}/", "")
        code = UNCLASSIFIED_RECORD if older else UNREADABLE_RECORD
        return make_issue(Severity.ERROR, IssuePhase.EVALUATE, code, message)
    return None
