"""The report of a run: every series over all tasks, and every task that one of them leaves out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ...contracts.metrics import (
    UNCATEGORIZED,
    AggregationMode,
    AggregationSpec,
    CategoryValue,
    Estimate,
    Exclusion,
    MetricContract,
    MetricReport,
    MetricSeries,
    MetricState,
    TaskObservations,
)
from ...contracts.request import AttemptsSpec
from .aggregation import Sample, aggregate, aggregate_tree, category_of, flat, unplaced_categories
from .coverage import count_tasks, cover_attempts
from .intervals import interval_of
from .reducers import Absence, ReducedTask, reduce_task
from .series import SeriesPlan, plan_series


@dataclass(frozen=True)
class _SeriesTasks:
    """All tasks as one series sees them."""

    plan: SeriesPlan
    tasks: list[tuple[TaskObservations, ReducedTask]]
    failed: bool
    """The whole evaluation failed: no number is official."""

    def by_category(self) -> dict[str, _SeriesTasks]:
        """The tasks of each category."""
        found: defaultdict[str, list[tuple[TaskObservations, ReducedTask]]] = defaultdict(list)
        for pair in self.tasks:
            found[category_of(pair[0].category)].append(pair)
        return {name: replace(self, tasks=pairs) for name, pairs in sorted(found.items())}

    def values(self) -> dict[str, list[float]]:
        """The values of evaluated tasks by category."""
        found: defaultdict[str, list[float]] = defaultdict(list)
        for task, reduced in self.tasks:
            if reduced.value is not None:
                found[category_of(task.category)].append(reduced.value)
        return dict(found)

    def estimate(self, sample: Sample | None) -> Estimate:
        """``sample`` as the official or the reference value of these tasks, beside their coverage."""
        counts = count_tasks(self.tasks)
        coverage = cover_attempts((task for task, _ in self.tasks), self.plan)
        if sample is None:
            return Estimate(counts=counts, attempt_coverage=coverage)
        interval = interval_of(sample.value, sample.values, sample.weights, self.plan.kind)
        if self.failed:
            return Estimate(
                reference_value=sample.value,
                reference_interval=interval,
                counts=counts,
                attempt_coverage=coverage,
            )
        return Estimate(value=sample.value, interval=interval, counts=counts, attempt_coverage=coverage)


def build_report(
    benchmark_id: str,
    contract: MetricContract,
    attempts: AttemptsSpec,
    tasks: Sequence[TaskObservations],
    aggregation: AggregationSpec | None = None,
) -> MetricReport:
    """All numbers of a run over ``tasks``, which are all selected tasks, also those without a record.

    The order of tasks does not matter. Raises ``ValueError`` when a task id occurs twice.
    """
    spec = aggregation or AggregationSpec()
    repeated = [task_id for task_id, count in Counter(task.task_id for task in tasks).items() if count > 1]
    if repeated:
        raise ValueError(f"{len(repeated)} task ids occur more than once, the first is {repeated[0]!r}")
    ordered = sorted(tasks, key=lambda task: task.task_id)
    failed = any(item.fatal for task in ordered for item in task.attempts)
    plans = plan_series(contract, attempts)
    series = [_SeriesTasks(plan, reduce_all(ordered, plan, spec), failed) for plan in plans]
    numbers = [_series(item, spec) for item in series]
    return MetricReport(
        benchmark=benchmark_id,
        evaluation_failed=failed,
        primary=plans[0].id,
        attempts=attempts,
        counts=numbers[0].counts,
        attempt_coverage=numbers[0].attempt_coverage,
        aggregation=spec,
        series=numbers,
        exclusions=_exclusions(series),
    )


def reduce_all(
    tasks: Sequence[TaskObservations], plan: SeriesPlan, spec: AggregationSpec
) -> list[tuple[TaskObservations, ReducedTask]]:
    """Every task with its state and value in the series ``plan``, aggregated by ``spec``."""
    unplaced = set(unplaced_categories({task.category for task in tasks}, spec))
    pairs: list[tuple[TaskObservations, ReducedTask]] = []
    for task in tasks:
        reduced = reduce_task(task, plan)
        category = category_of(task.category)
        if category in unplaced and reduced.state is MetricState.EVALUATED:
            reason = f"category {category!r} is not in the category hierarchy"
            reduced = ReducedTask(
                task.task_id,
                task.category,
                MetricState.UNAVAILABLE,
                absence=Absence("category_unplaced", reason),
            )
        pairs.append((task, reduced))
    return pairs


def _series(tasks: _SeriesTasks, spec: AggregationSpec) -> MetricSeries:
    plan = tasks.plan
    values = tasks.values()
    by_category = tasks.by_category()
    categories = {name: _category(part, flat(values.get(name, ()))) for name, part in by_category.items()}
    return MetricSeries(
        **dict(tasks.estimate(aggregate(values, spec))),
        id=plan.id,
        metric=plan.metric,
        reducer=plan.reducer,
        k=plan.k,
        kind=plan.kind,
        aggregation=spec.mode,
        categories=categories if set(categories) != {UNCATEGORIZED} else {},
        hierarchy=_hierarchy(tasks, by_category, spec),
    )


def _hierarchy(
    tasks: _SeriesTasks, by_category: Mapping[str, _SeriesTasks], spec: AggregationSpec
) -> dict[str, CategoryValue]:
    if spec.mode is not AggregationMode.CATEGORY_HIERARCHY or spec.hierarchy is None:
        return {}
    found: dict[str, CategoryValue] = {}
    for node in aggregate_tree(tasks.values(), spec.hierarchy):
        pairs = [pair for name in node.categories if name in by_category for pair in by_category[name].tasks]
        found[node.path] = _category(replace(tasks, tasks=pairs), node.sample, node.share)
    return found


def _category(tasks: _SeriesTasks, sample: Sample | None, weight: float | None = None) -> CategoryValue:
    return CategoryValue(**dict(tasks.estimate(sample)), weight=weight)


def _exclusions(series: Sequence[_SeriesTasks]) -> list[Exclusion]:
    """Invalidated tasks first, then unavailable ones, by id; series that tell the same share one entry."""
    found: dict[tuple[MetricState, str, str, str], Exclusion] = {}
    for item in series:
        for _, reduced in item.tasks:
            absence = reduced.absence
            if absence is None:
                continue
            entry = found.setdefault(
                (reduced.state, reduced.task_id, absence.code, absence.reason),
                Exclusion(
                    task_id=reduced.task_id,
                    category=reduced.category,
                    state=reduced.state,
                    code=absence.code,
                    reason=absence.reason,
                ),
            )
            entry.series.append(item.plan.id)
    return sorted(found.values(), key=lambda entry: (entry.state.value, entry.task_id, entry.reason))
