"""From the tasks of two runs to what changed between them, and whether that is a step back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ...contracts.comparison import Comparison, PairedDifference, TaskChange, TaskChanges, TaskGap
from ...contracts.metrics import AggregationSpec, MetricKind
from .aggregation import Sample, aggregate, category_of
from .headline import format_interval, format_number
from .paired import paired_interval
from .reducers import ReducedTask


@dataclass(frozen=True)
class ComparedTask:
    """One task of a run, reduced to the number that is compared."""

    digest: str
    """Of the task's content; empty when it is not known."""
    reduced: ReducedTask


@dataclass(frozen=True)
class _Pair:
    """A task that both runs evaluated."""

    task_id: str
    category: str
    old: float
    new: float


def find_changes(
    old: Mapping[str, ComparedTask], new: Mapping[str, ComparedTask], kind: MetricKind, spec: AggregationSpec
) -> TaskChanges:
    """Every difference between two runs' tasks, given by id, in a metric of ``kind``."""
    pairs: list[_Pair] = []
    lost: list[TaskGap] = []
    gained: list[TaskGap] = []
    changed: list[str] = []
    for task_id, after in new.items():
        before = old.get(task_id)
        if before is None:
            continue
        a, b = before.reduced.value, after.reduced.value
        if before.digest and after.digest and before.digest != after.digest:
            changed.append(task_id)
        elif a is not None and b is not None:
            pairs.append(_Pair(task_id, after.reduced.category, a, b))
        elif a is not None:
            lost.append(_gap(after.reduced))
        elif b is not None:
            gained.append(_gap(before.reduced))
    changes = [
        TaskChange(task_id=pair.task_id, category=pair.category, old=pair.old, new=pair.new)
        for pair in sorted(pairs, key=lambda pair: (-abs(pair.new - pair.old), pair.task_id))
        if pair.old != pair.new
    ]
    return TaskChanges(
        paired=_paired(pairs, kind, spec),
        worse=[item for item in changes if item.new < item.old],
        better=[item for item in changes if item.new > item.old],
        lost=lost,
        gained=gained,
        changed_content=changed,
        only_old=sum(task_id not in new for task_id in old),
        only_new=sum(task_id not in old for task_id in new),
    )


def regressions_of(found: Comparison) -> list[str]:
    """Why the new run is a step back, or cannot be shown not to be one; nothing when it is none.

    A difference counts when its whole interval lies below 0, or when it is below 0 and has no interval.
    """
    paired, reasons = found.paired, list[str]()
    if paired.difference is None:
        reasons.append("no task was evaluated in both runs, so nothing can be said")
    elif paired.difference < 0 and (paired.interval is None or paired.interval.high < 0):
        shown = f" (95 % CI {format_interval(paired.interval)})" if paired.interval else ""
        reasons.append(
            f"{found.metric} changed by {format_number(paired.difference)}{shown} over {paired.tasks} tasks"
        )
    if found.new.evaluation_failed and not found.old.evaluation_failed:
        reasons.append("the new run has no official score, the old one has")
    if found.lost:
        count = len(found.lost)
        reasons.append(
            f"{count} {'task' if count == 1 else 'tasks'} that the old run evaluated lost the score"
        )
    return reasons


def _paired(pairs: list[_Pair], kind: MetricKind, spec: AggregationSpec) -> PairedDifference:
    """The aggregate of the differences, which is the difference of the aggregates over the same tasks."""
    by_category: defaultdict[str, list[_Pair]] = defaultdict(list)
    for pair in pairs:
        by_category[category_of(pair.category)].append(pair)
    old, new = _side(by_category, "old", spec), _side(by_category, "new", spec)
    if old is None or new is None:
        return PairedDifference()
    difference = new.value - old.value
    return PairedDifference(
        tasks=len(new.values),
        old=old.value,
        new=new.value,
        difference=difference,
        # Both samples list the same tasks in the same order with the same weights.
        interval=paired_interval(old.values, new.values, new.weights, difference, kind),
        better=sum(pair.new > pair.old for pair in pairs),
        worse=sum(pair.new < pair.old for pair in pairs),
        equal=sum(pair.new == pair.old for pair in pairs),
    )


def _side(by_category: Mapping[str, list[_Pair]], which: str, spec: AggregationSpec) -> Sample | None:
    values = {name: [getattr(pair, which) for pair in pairs] for name, pairs in by_category.items()}
    return aggregate(values, spec)


def _gap(reduced: ReducedTask) -> TaskGap:
    absence = reduced.absence
    return TaskGap(
        task_id=reduced.task_id,
        category=reduced.category,
        code=absence.code if absence else reduced.state.value,
        reason=absence.reason if absence else "",
    )
