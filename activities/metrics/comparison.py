"""Two runs of the same benchmark, task by task: what became better, what worse, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...contracts.comparison import ComparedRun, Comparison
from ...contracts.errors import UsageError
from ...contracts.metrics import (
    AggregationSpec,
    MetricReport,
    MetricSeries,
    Reducer,
    TaskObservations,
)
from ...contracts.records import DamagedRecord, RunInfo
from ..recorded_report import FoundReport, find_report
from ..store import RunStore, open_store
from .browsed import observe_browsed, plan_of
from .changes import ComparedTask, find_changes, regressions_of
from .report import reduce_all


def compare_runs(old: Path, new: Path) -> Comparison:
    """Compare the primary metric of two run directories; needs no server and no plugin, writes nothing.

    Raises ``RecordError`` when one is not a run or has no report, ``UsageError`` when they have no number
    in common that could be compared.
    """
    before, after = _Side.read(old), _Side.read(new)
    if before.report.benchmark != after.report.benchmark:
        raise UsageError(
            f"the runs evaluate different benchmarks: {before.report.benchmark!r} and {after.report.benchmark!r}"
        )
    old_series, new_series = _series_to_compare(before.report, after.report)
    spec = after.report.aggregation
    changes = find_changes(
        before.tasks(old_series, spec), after.tasks(new_series, spec), new_series.kind, spec
    )
    found = Comparison(
        benchmark=after.report.benchmark,
        metric=new_series.metric,
        old=before.facts(old_series),
        new=after.facts(new_series),
        **dict(changes),
        notes=[
            *before.notes("old"),
            *after.notes("new"),
            *_differences(before, after, old_series, new_series),
        ],
    )
    return found.model_copy(update={"regressions": regressions_of(found)})


@dataclass(frozen=True)
class _Side:
    """One of the two runs."""

    store: RunStore
    found: FoundReport
    info: RunInfo
    damaged: list[DamagedRecord] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> _Side:
        store = open_store(path.resolve())
        info = store.files.run_info()  # first: it tells best what is no run
        return cls(store, find_report(store), info)

    @property
    def report(self) -> MetricReport:
        return self.found.report

    def facts(self, series: MetricSeries) -> ComparedRun:
        return ComparedRun(
            run_id=self.store.run_id,
            run_dir=str(self.store.run_dir),
            model=self.component("model"),
            harness=self.component("harness"),
            environment=self.component("environment"),
            status=self.info.status or "",
            series=series.id,
            evaluation_failed=self.report.evaluation_failed,
            value=series.value,
            reference_value=series.reference_value,
            interval=series.interval or series.reference_interval,
            counts=series.counts,
            attempt_coverage=series.attempt_coverage,
            damaged=self.damaged,
        )

    def component(self, kind: str) -> str:
        """The id that ``run_info.json`` tells, which every copy of a run has."""
        part = self.info.request.get(kind)
        return str(part.get("id", "")) if isinstance(part, dict) else ""

    def tasks(self, series: MetricSeries, spec: AggregationSpec) -> dict[str, ComparedTask]:
        """All selected tasks by id; of each record only what the series needs stays in memory."""
        digests: dict[str, str] = {}
        observed: list[TaskObservations] = []
        for task in self.store.browse():
            digests[task.task_id] = task.digest
            if task.damage is not None:
                self.damaged.append(task.damage)
            observed.append(observe_browsed(task, series, self.report.attempts.k))
        pairs = reduce_all(observed, plan_of(series), spec)
        return {reduced.task_id: ComparedTask(digests[reduced.task_id], reduced) for _, reduced in pairs}

    def notes(self, name: str) -> list[str]:
        found = [f"the {name} run's report was {self.found.note}"] if self.found.note else []
        status = self.info.status
        if status is None:
            found.append(f"the {name} run is not over")
        elif status != "completed":
            found.append(f"the {name} run ended as {status}")
        return found


def _series_to_compare(old: MetricReport, new: MetricReport) -> tuple[MetricSeries, MetricSeries]:
    """The primary series, or means of the same metric, or what else both have. Raises ``UsageError``."""
    first, second = old.headline(), new.headline()
    if first and second and (first.id == second.id or _both_means(first, second)):
        return first, second
    known = {series.id: series for series in old.series}
    shared = next((series for series in new.series if series.id in known), None)
    if shared is None:
        raise UsageError(
            f"the runs have no number in common: the old one has {', '.join(known) or 'none'}, "
            f"the new one {', '.join(series.id for series in new.series) or 'none'}"
        )
    return known[shared.id], shared


def _both_means(old: MetricSeries, new: MetricSeries) -> bool:
    """Means over different numbers of attempts estimate the same; pass@k for different k does not."""
    means = {Reducer.NATIVE, Reducer.AVG}
    return old.metric == new.metric and old.kind is new.kind and {old.reducer, new.reducer} <= means


def _differences(
    before: _Side, after: _Side, old_series: MetricSeries, new_series: MetricSeries
) -> list[str]:
    """Settings that differ and that a reader of the numbers should know of."""
    notes: list[str] = []
    if new_series.id != after.report.primary:
        notes.append(f"compared is {new_series.id}, because the headlines of the runs differ")
    elif old_series.id != new_series.id:
        notes.append(f"{old_series.id} of the old run is compared with {new_series.id} of the new one")
    if before.report.aggregation != after.report.aggregation:
        notes.append("the runs aggregate differently; the difference is aggregated as in the new run")
    for what in ("harness", "environment"):
        old_id, new_id = before.component(what), after.component(what)
        if old_id != new_id:
            notes.append(f"the {what} differs: {old_id} and {new_id}")
    return notes
