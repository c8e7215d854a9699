"""How much of what was wanted a number covers: counts of tasks and of attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...contracts.metrics import (
    AttemptCoverage,
    MetricCounts,
    MetricState,
    Reducer,
    TaskObservations,
)
from .reducers import ReducedTask, counted_attempts
from .series import SeriesPlan


def count_tasks(tasks: Iterable[tuple[TaskObservations, ReducedTask]]) -> MetricCounts:
    """Tasks by state; ``error`` counts those with a final ERROR or FATAL in any attempt, beside the states."""
    states: Counter[MetricState] = Counter()
    error = 0
    for task, reduced in tasks:
        states[reduced.state] += 1
        error += any(item.error or item.fatal for item in task.attempts)
    return MetricCounts(
        total=states.total(),
        evaluated=states[MetricState.EVALUATED],
        unavailable=states[MetricState.UNAVAILABLE],
        invalidated=states[MetricState.INVALIDATED],
        error=error,
    )


def cover_attempts(tasks: Iterable[TaskObservations], plan: SeriesPlan) -> AttemptCoverage:
    """Attempts of the series ``plan``, each counted once whatever number of issues it has.

    Attempts that a success made unnecessary are not expected; WARNINGs are not counted.
    """
    expected = valid = error = 0
    for task in tasks:
        attempts = counted_attempts(task, plan.k)
        expected += expected_attempts(task, plan)
        valid += sum(plan.metric in item.metrics and not item.fatal for item in attempts)
        error += sum(item.error or item.fatal for item in attempts)
    return AttemptCoverage(expected=expected, valid=valid, error=error)


def expected_attempts(task: TaskObservations, plan: SeriesPlan) -> int:
    """How many attempts of ``task`` the series needs: k, or those up to a rightful early stop."""
    attempts = counted_attempts(task, plan.k)
    stopped = (
        plan.reducer is Reducer.PASS
        and task.stopped_early
        and any(item.metrics.get(plan.metric) is True for item in attempts)
    )
    return len(attempts) if stopped else max(plan.k, len(attempts))
