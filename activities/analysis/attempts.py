"""Run analyzers on the attempts of a finished task. Whatever an analyzer does costs only itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from ...contracts.activities import ExecutionRef
from ...contracts.analyzer import AnalysisFinding, Analyzer, AnalyzerResult
from ...contracts.records import AttemptRecord, TaskRecord
from ...contracts.result import RunResult
from ..classification import describe, diagnostics_of, one_line
from ..hook_calls import call_hook
from ..store import AttemptAnalysis, RunStore, TaskEntry, attempt_digest
from .context import AnalysisContext

MAX_BYTES = 256 * 1024
"""JSON that one analyzer may store for one attempt."""

_FINDINGS = TypeAdapter(list[AnalysisFinding])


@dataclass(frozen=True)
class Analysis:
    """How a run's attempts are analysed."""

    store: RunStore
    analyzers: Sequence[Analyzer[Any]]
    timeout_seconds: float
    again: bool = False
    """Also where there is a result already; otherwise that result stands."""


async def analyze_record(
    analysis: Analysis, entry: TaskEntry, record: TaskRecord
) -> dict[str, AttemptAnalysis]:
    """Results by attempt number, for those attempts that an analyzer looked at."""
    found: dict[str, AttemptAnalysis] = {}
    for number, attempt in record.attempts.items():
        wanted = [analyzer for analyzer in analysis.analyzers if _is_wanted(analysis, analyzer, attempt)]
        if not wanted:
            continue
        # Before an analyzer gets its hands on it: an analysis is only good for what was analysed.
        digest = attempt_digest(attempt)
        result = _result_of(record, attempt)
        context = _context(analysis.store, entry, record, number)
        results = {
            analyzer.id: await _run(analyzer, result, context, analysis.timeout_seconds)
            for analyzer in wanted
        }
        found[number] = AttemptAnalysis(digest, results)
    return found


def _is_wanted(analysis: Analysis, analyzer: Analyzer[Any], attempt: AttemptRecord) -> bool:
    if analyzer.requires_trajectory and not (attempt.trajectory and attempt.trajectory.steps):
        return False
    return analysis.again or analyzer.id not in attempt.analysis_result


async def _run(
    analyzer: Analyzer[Any], result: RunResult, context: AnalysisContext, seconds: float
) -> AnalyzerResult:
    context.start_budget(seconds)
    try:
        async with asyncio.timeout(seconds) as limit:
            findings = _FINDINGS.validate_python(await call_hook(analyzer.analyze, result, context))
        # Back and forth through JSON, so that what cannot be stored fails here and alone.
        stored = AnalyzerResult(findings=findings).model_dump_json()
        if len(stored) > MAX_BYTES:
            raise ValueError(f"its findings take {len(stored)} bytes; the limit is {MAX_BYTES}")
        return AnalyzerResult.model_validate_json(stored)
    except Exception as error:  # extension code may raise anything; it is recorded and changes nothing else
        late = isinstance(error, TimeoutError) and limit.expired()
        reason = f"took longer than {seconds:g} s" if late else one_line(describe(error))
        context.log.warning("analyzer %r failed: %s", analyzer.id, reason)
        context.log.debug("analyzer %r: %s", analyzer.id, diagnostics_of(error))
        return AnalyzerResult(error=reason)


def _result_of(record: TaskRecord, attempt: AttemptRecord) -> RunResult:
    """The scored result as the benchmark returned it."""
    return RunResult(
        task_id=record.task_id,
        status=attempt.status,
        category=record.category,
        final_answer=attempt.final_answer,
        ground_truth=record.ground_truth,
        trajectory=attempt.trajectory,
        issues=attempt.issues,
        artifacts=attempt.artifacts,
        metrics=dict(attempt.metrics),
        meta=attempt.meta,
        extra=attempt.extra,
    )


def _context(store: RunStore, entry: TaskEntry, record: TaskRecord, number: str) -> AnalysisContext:
    ref = ExecutionRef(
        run_dir=str(store.run_dir),
        task_index=entry.index,
        task_id=record.task_id,
        attempt=int(number),
        execution=record.retry_counts.get(number, 0) + 1,
    )
    return AnalysisContext(ref, store.execution(ref))
