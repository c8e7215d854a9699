"""Aggregate a run: metrics.json, summary.md, the final state of run_info.json."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

from temporalio import activity

from .. import __version__
from ..contracts.activities import FINALIZE_REQUEST, FinalizeInput
from ..contracts.comparison import Comparison
from ..contracts.errors import RecordError
from ..contracts.issues import Severity
from ..contracts.launch import RequestResult
from ..contracts.metrics import MetricReport, TaskObservations
from ..contracts.records import RunInfo, RunStatus
from ..plugins.registry import ComponentKind, load_registry
from .analysis import AnalysisMeter, render_analysis
from .boundary import activity_boundary
from .heartbeat import heartbeating
from .metrics import (
    RunFacts,
    damaged_records,
    headline,
    render_summary,
)
from .previous_run import stand_against_previous
from .run_report import compute_report
from .services import Services
from .store import (
    EventSource,
    RunStore,
    open_store,
    read_snapshot,
    run_log_scope,
)
from .store.progress import open_progress

_log = logging.getLogger(__name__)


class Finalize:
    """A second try computes the same from the same records."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=FINALIZE_REQUEST.name)
    @activity_boundary
    async def finalize_request(self, input: FinalizeInput) -> RequestResult:
        """Write the report, then the final state, then say so in the progress file."""
        async with heartbeating():
            store = self._services.store(input.run_dir)
            state = store.request_state()
            events, progress = EventSource.of(state), open_progress(input.run_dir)
            with run_log_scope(store.run_dir):
                await progress.emit([events.summary_started()])
                components = self._services.components(input.run_dir)
                analysis = AnalysisMeter()
                report, observed = await asyncio.to_thread(
                    compute_report, store, components.benchmark, analysis
                )
                status: RunStatus = input.status
                if status == "completed" and report.evaluation_failed:
                    status = "failed"
                error = input.error or failure_text(report)
                await asyncio.to_thread(store.files.finish_run_info, status, error)
                info = store.files.run_info()
                await asyncio.to_thread(write_report, store, info, report, observed)
                standing = await asyncio.to_thread(stand_against_previous, store, status)
                if standing.comparison:
                    await asyncio.to_thread(write_report, store, info, report, observed)
                await asyncio.to_thread(write_analysis, store, analysis)
                await progress.emit([events.run_finished(status, error)])
                await progress.flush()
                _log.info("run finished: %s; %s", status, headline(report))
            result = request_result(store, input.request_key, status, report, error)
            return result.model_copy(
                update={"comparison": standing.comparison, "regression": standing.regression}
            )


def recompute(run_dir: Path) -> RequestResult:
    """``agentcompass summary``: the report again from the records, without Temporal.

    Raises ``RecordError`` when the directory is not a run, ``UsageError`` when its benchmark is
    not installed.
    """
    store = open_store(run_dir)
    info = store.files.run_info()
    request = store.request()
    registry = load_registry(request.metadata.recipe_dirs)
    # Not build_components: a new summary needs the benchmark, but no secret and no environment.
    params = registry.validate_params(ComponentKind.BENCHMARK, request.benchmark.id, request.benchmark.params)
    benchmark = registry.get_benchmark(request.benchmark.id)(params)
    analysis = AnalysisMeter()
    report, observed = compute_report(store, benchmark, analysis)
    write_report(store, info, report, observed)
    write_analysis(store, analysis)
    status: Any = info.status or "running"
    if status in ("completed", "failed"):
        status = "failed" if report.evaluation_failed else "completed"
    return request_result(store, store.request_state().request_key, status, report, info.error or "")


def write_report(
    store: RunStore, info: RunInfo, report: MetricReport, observed: list[TaskObservations]
) -> None:
    """``metrics.json`` and ``summary.md``; this with ``comparison.json``, where the run has one."""
    request = store.request()
    others = info.reused_from.other_settings if info.reused_from else None
    facts = RunFacts(
        run_id=store.run_id,
        model=request.model.id,
        harness=request.harness.id,
        environment=request.environment.id,
        status=info.status or "",
        started_at=info.started_at,
        finished_at=info.finished_at or "",
        reused_tasks=reused_tasks(store),
        reused_from=info.reused_from.run_id if info.reused_from else "",
        other_settings=others.note if others else "",
        error=info.error or "",
        agentcompass_version=__version__,
    )
    store.files.save_metrics(report)
    store.files.save_summary(render_summary(report, facts, observed, comparison_of(store)))


def comparison_of(store: RunStore) -> Comparison | None:
    """The comparison with the run before, if there is one that can be read."""
    try:
        return store.files.comparison()
    except RecordError as error:
        _log.warning("the summary is written without the comparison: %s", error)
        return None


def reused_tasks(store: RunStore) -> int:
    """How many tasks were taken over from another run, as far as the progress file tells."""
    try:
        snapshot = read_snapshot(store.run_dir)
    except RecordError:
        return 0  # the records are the result; the number is an ornament of the summary
    return snapshot.reused_tasks if snapshot else 0


def write_analysis(store: RunStore, analysis: AnalysisMeter) -> None:
    """``analysis_summary.json`` and ``analysis_summary.md``, when there is anything to tell."""
    summary = analysis.summary(store.request().benchmark.id)
    if summary is not None:
        store.files.save_analysis(summary, render_analysis(summary))


def failure_text(report: MetricReport) -> str:
    """One line that says why the evaluation failed."""
    if not report.evaluation_failed:
        return ""
    count = report.counts.invalidated
    first = next((item for item in report.exclusions if item.state == "invalidated"), None)
    which = f"{'the first, ' if count > 1 else ''}{first.task_id!r}: {first.reason}" if first else "unknown"
    tasks = "tasks" if report.counts.total != 1 else "task"
    return f"{count} of {report.counts.total} {tasks} ended with a {Severity.FATAL} issue; {which}"[:1000]


def request_result(store: RunStore, key: str, status: str, report: MetricReport, error: str) -> RequestResult:
    """What the launch is told of a finished request."""
    request = store.request()
    headline = report.headline()
    counts, progress = report.counts, read_snapshot(store.run_dir)
    damaged = len(damaged_records(report))
    return RequestResult(
        key=key,
        run_id=store.run_id,
        run_dir=str(store.run_dir),
        status=status,
        benchmark=request.benchmark.id,
        harness=request.harness.id,
        model=request.model.id,
        environment=request.environment.id,
        total_tasks=counts.total,
        evaluated_tasks=counts.evaluated,
        unavailable_tasks=counts.unavailable,
        invalidated_tasks=counts.invalidated,
        error_tasks=counts.error,
        warning_tasks=progress.warning_tasks if progress else 0,
        reused_tasks=reused_tasks(store),
        primary=report.primary,
        value=headline.value if headline else None,
        reference_value=headline.reference_value if headline else None,
        error=error,
        damaged_records=damaged,
        exit_code=0 if status == "completed" and not damaged else 1,
    )
