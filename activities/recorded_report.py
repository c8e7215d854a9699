"""The report of a run for readers: the one on disk, or, where there is none, one from the records."""

from __future__ import annotations

from dataclasses import dataclass

from ..contracts.errors import AgentCompassError, RecordError
from ..contracts.metrics import MetricReport
from ..plugins.registry import ComponentKind, load_registry
from .analysis import AnalysisMeter
from .run_report import compute_report
from .store import RunStore


@dataclass(frozen=True)
class FoundReport:
    """A report and where it comes from."""

    report: MetricReport
    note: str = ""
    """Empty for the report that the run wrote itself at its end."""


def find_report(store: RunStore) -> FoundReport:
    """``metrics.json``, or what ``agentcompass summary`` would write there; writes nothing.

    Raises ``RecordError`` when neither can be had.
    """
    try:
        return FoundReport(store.files.metrics())
    except RecordError as error:
        reason = str(error).replace(f"{store.run_dir}/", "")
    try:
        report = _compute(store)
    except AgentCompassError as error:
        raise RecordError(f"{store.run_dir}: {reason}, and no report can be computed: {error}") from error
    return FoundReport(report, f"computed from the records, because {reason}")


def _compute(store: RunStore) -> MetricReport:
    request = store.request()
    registry = load_registry(request.metadata.recipe_dirs)
    params = registry.validate_params(ComponentKind.BENCHMARK, request.benchmark.id, request.benchmark.params)
    benchmark = registry.get_benchmark(request.benchmark.id)(params)
    report, _ = compute_report(store, benchmark, AnalysisMeter())
    return report
