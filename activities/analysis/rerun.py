"""``agentcompass analysis``: analyse a run afterwards, without Temporal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import Field

from ...contracts.analyzer import Analyzer
from ...contracts.base import Contract
from ...contracts.errors import RecordError, RunDirectoryError, UsageError
from ...contracts.phases import Phase
from ...contracts.records import AnalysisSummary, DamagedRecord, ProgressEvent, TaskRecord
from ...contracts.request import AnalysisSpec
from ...plugins.registry import load_registry
from ..store import (
    EventSource,
    ProgressWriter,
    RunStore,
    TaskEntry,
    UnclassifiedRecordError,
    open_store,
    worst_severity,
)
from ..store.files import file_lock
from ..store.progress_log import restart_progress
from ..store.run_copy import copy_run
from .attempts import Analysis
from .markdown import render_analysis
from .selection import analyzers_of
from .summary import AnalysisMeter
from .tasks import analyze_task, some_at_once

_log = logging.getLogger(__name__)


class AnalysisReport(Contract):
    """What an analysis afterwards came to."""

    run_dir: str
    """Where the results are: the run itself, or its copy."""
    summary: AnalysisSummary
    damaged: list[DamagedRecord] = Field(default_factory=list)
    """Task records that cannot be read and were not analysed."""

    @property
    def failures(self) -> int:
        """How often an analyzer failed on an attempt."""
        return sum(analyzer.failed for analyzer in self.summary.analyzers)


def analyze_run(
    run_dir: Path, given: AnalysisSpec, *, output: Path | None = None, override: bool = False
) -> AnalysisReport:
    """Analyse the finished tasks of ``run_dir`` again, by default in a copy beside it.

    What ``given`` sets goes over what the run was configured with. Raises ``UsageError`` with nothing
    written when no analyzer applies or the target cannot be used, ``RecordError`` when ``run_dir`` is
    not a run.
    """
    source = open_store(run_dir.resolve())
    info = source.files.run_info()
    request = source.request()
    spec = combined(request.execution.analysis_params, given)
    analyzers = analyzers_of(spec, request.benchmark.id, load_registry())
    if not analyzers:
        raise UsageError(
            f"no analyzer applies to benchmark {request.benchmark.id!r}; name one with --analyzer"
        )
    if override:
        if info.finished_at is None:
            raise RunDirectoryError(f"{run_dir} holds a run that is not over; leave out --override")
        target = source.run_dir
    else:
        target = (output or _beside(source.run_dir)).resolve()
        copy_run(source.run_dir, target)
    # Two analyses of one directory come one after the other.
    with file_lock(target / ".state" / "locks" / "analysis.lock"):
        restart_progress(target)
        damaged: list[DamagedRecord] = []
        summary = asyncio.run(_analyze(open_store(target), analyzers, spec.timeout_seconds, damaged))
    damaged.sort(key=lambda item: item.task_id)
    return AnalysisReport(run_dir=str(target), summary=summary, damaged=damaged)


def combined(configured: AnalysisSpec, given: AnalysisSpec) -> AnalysisSpec:
    """``given`` over ``configured``: parameters are merged, everything else that is set replaces."""
    update: dict[str, Any] = {name: getattr(given, name) for name in given.model_fields_set}
    update["params"] = {
        name: {**configured.params.get(name, {}), **given.params.get(name, {})}
        for name in {**configured.params, **given.params}
    }
    return configured.model_copy(update=update)


def _beside(run_dir: Path) -> Path:
    return run_dir.with_name(f"{run_dir.name}_analysis_{datetime.now():%Y%m%d_%H%M%S}")


async def _analyze(
    store: RunStore, analyzers: Sequence[Analyzer[Any]], seconds: float, damaged: list[DamagedRecord]
) -> AnalysisSummary:
    request = store.request()
    analysis = Analysis(store, analyzers, seconds, again=True)
    events, progress = EventSource.of(store.request_state()), ProgressWriter(store.run_dir)
    entries = store.task_entries()
    await progress.emit(
        [
            events.run_started(
                model=request.model.id,
                benchmark=request.benchmark.id,
                harness=request.harness.id,
                environment=request.environment.id,
            ),
            events.tasks_loaded(len(entries)),
        ]
    )

    async def analyze(entry: TaskEntry) -> None:
        if not store.has_record(entry.task_id):
            return
        try:
            record = await asyncio.to_thread(store.task_record, entry.task_id)
        except RecordError as error:  # it costs its own task only
            if not isinstance(error, UnclassifiedRecordError):
                reason = str(error).replace(f"{store.run_dir}/", "")
                damaged.append(DamagedRecord(task_id=entry.task_id, reason=reason))
            _log.warning("task %s is not analysed: %s", entry.task_id, error)
            return
        if record is not None:
            began, ended = _events(events, entry, record, len(entries))
            await progress.emit(began)
            await analyze_task(analysis, entry)
            await progress.emit(ended)

    await some_at_once(entries, analyze)
    await progress.emit([events.summary_started()])
    summary = await asyncio.to_thread(_summarize, store)
    await progress.emit([events.run_finished("completed")])
    await progress.close()
    return summary


def _events(
    source: EventSource, entry: TaskEntry, record: TaskRecord, total: int
) -> tuple[list[ProgressEvent], list[ProgressEvent]]:
    """What is said of a task before and after it is analysed."""
    task_id, category = entry.task_id, entry.category or None
    began = [source.task_started(task_id, category, index=entry.index, total=total)]
    began += [
        source.phase_changed(
            task_id,
            category,
            attempt=int(number),
            execution=record.retry_counts.get(number, 0) + 1,
            phase=Phase.ANALYZE.value,
        )
        for number in record.attempts
    ]
    ended = source.task_finished(
        task_id, category, index=entry.index, total=total, severity=worst_severity(record)
    )
    return began, [ended]


def _summarize(store: RunStore) -> AnalysisSummary:
    meter = AnalysisMeter()
    for record in store.iter_task_records():
        meter.add(record)
    benchmark = store.request().benchmark.id
    summary = meter.summary(benchmark) or AnalysisSummary(benchmark=benchmark)
    store.files.save_analysis(summary, render_analysis(summary))
    return summary
