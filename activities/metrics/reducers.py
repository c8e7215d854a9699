"""One task: from the observations of its attempts to one number, or to why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from ...contracts.issues import IssueCode
from ...contracts.metrics import (
    AttemptObservation,
    MetricState,
    Reducer,
    TaskObservations,
)
from ...contracts.result import TaskStatus
from .series import SeriesPlan


@dataclass(frozen=True)
class Absence:
    """Why a series does not count a task: a code to group by, and a sentence."""

    code: str
    reason: str


@dataclass(frozen=True)
class ReducedTask:
    """One task in one series. ``value`` is there exactly when ``state`` is evaluated."""

    task_id: str
    category: str
    state: MetricState
    value: float | None = None
    absence: Absence | None = None


def reduce_task(task: TaskObservations, plan: SeriesPlan) -> ReducedTask:
    """The state and value of ``task`` in the series ``plan``.

    An attempt with a final FATAL invalidates the task in every series, whatever the other attempts show.
    """
    fatal = next((item for item in task.attempts if item.fatal), None)
    if fatal is not None:
        return ReducedTask(task.task_id, task.category, MetricState.INVALIDATED, absence=_blame(fatal))
    attempts = counted_attempts(task, plan.k)
    values = [float(item.metrics[plan.metric]) for item in attempts if plan.metric in item.metrics]
    value = _reduce(values, plan)
    if value is None:
        absence = _why_absent(task, attempts, plan)
        return ReducedTask(task.task_id, task.category, MetricState.UNAVAILABLE, absence=absence)
    return ReducedTask(task.task_id, task.category, MetricState.EVALUATED, value)


def counted_attempts(task: TaskObservations, k: int) -> list[AttemptObservation]:
    """The attempts that speak for k: all of them, also more than k.

    Where attempts ended at a success their number depends on the outcome, and more than k would
    bias an estimate; then the first k count.
    """
    if not task.stopped_early:
        return task.attempts
    return [item for item in task.attempts if item.attempt <= k]


@lru_cache(maxsize=4096)
def pass_at_k(n: int, c: int, k: int) -> float:
    """The unbiased estimate of pass@k from ``n`` attempts with ``c`` successes.

    1 - C(n-c, k) / C(n, k): Chen et al., "Evaluating Large Language Models Trained on Code" (2021,
    arXiv:2107.03374, equation 1). Integers keep it exact up to the one rounding at the end.
    Raises ``ValueError`` unless 0 <= c <= n and 1 <= k <= n.
    """
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass@{k} is not defined for {c} successes in {n} attempts")
    draws = math.comb(n, k)
    return (draws - math.comb(n - c, k)) / draws


def mean(values: list[float]) -> float:
    """The mean of at least one value; exact before its last rounding, and so independent of order."""
    try:
        result = math.fsum(values) / len(values)
    except OverflowError:  # the sum leaves the range of a float, the mean cannot
        result = math.fsum(value / len(values) for value in values)
    return min(max(result, min(values)), max(values))  # the division's rounding may step outside


def _reduce(values: list[float], plan: SeriesPlan) -> float | None:
    if len(values) >= plan.k:
        if plan.reducer is Reducer.PASS:
            return pass_at_k(len(values), sum(value > 0 for value in values), plan.k)
        return mean(values)
    # Too few for a mean or for a failure, but one success settles pass@k.
    return 1.0 if plan.reducer is Reducer.PASS and any(values) else None


def _why_absent(task: TaskObservations, attempts: list[AttemptObservation], plan: SeriesPlan) -> Absence:
    if not attempts:
        if task.issue is not None:
            return Absence(task.issue.code, task.issue.message)
        return Absence("not_run", "no attempt finished")
    silent = next((item for item in attempts if plan.metric not in item.metrics), None)
    if silent is None:
        return Absence("not_run", f"{len(attempts)} of {plan.k} attempts finished")
    blame = _blame(silent, plan.metric)
    if plan.k == 1:
        return blame
    observed = sum(plan.metric in item.metrics for item in attempts)
    return Absence(blame.code, f"{observed} of {plan.k} attempts scored; {blame.reason}")


def _blame(attempt: AttemptObservation, metric: str = "") -> Absence:
    """The code and sentence for an attempt that has no observation, or is FATAL."""
    where = f"attempt {attempt.attempt}"
    # Where the verifier did return something, only a refused metric explains that another is absent.
    explained = attempt.fatal or not attempt.metrics
    if attempt.issue and (explained or attempt.issue.code == IssueCode.METRIC_INVALID):
        return Absence(attempt.issue.code, f"{where}: {attempt.issue.code}: {attempt.issue.message}")
    if attempt.status in (TaskStatus.SKIPPED, TaskStatus.CANCELLED):
        return Absence(attempt.status.value, f"{where} was {attempt.status.value}")
    if attempt.fatal:
        return Absence("fatal", f"{where} ended with a fatal issue")
    return Absence("not_observed", f"{where}: the verifier returned no {metric!r}")
