"""Which numbers a report has, and their names."""

from __future__ import annotations

from dataclasses import dataclass

from ...contracts.metrics import MetricContract, MetricKind, Reducer
from ...contracts.request import AttemptsSpec, AttemptStrategy


@dataclass(frozen=True)
class SeriesPlan:
    """One number of a report: a metric, reduced per task over k attempts."""

    metric: str
    kind: MetricKind
    reducer: Reducer
    k: int

    @property
    def id(self) -> str:
        """``<metric>.<reducer>@<k>``, as ``correct.pass@3``."""
        return f"{self.metric}.{self.reducer}@{self.k}"


def plan_series(contract: MetricContract, attempts: AttemptsSpec) -> list[SeriesPlan]:
    """The series of a run, the headline first, then by the contract's order.

    k = 1: ``native`` of every metric. ``avg``: the mean of every metric, and ``pass`` of the binary
    ones. ``pass``: only ``pass`` of the primary metric, because attempts end at its success and what
    the others would show is selected by that. A scalar primary metric knows no success, so ``pass``
    then runs, and reports, like ``avg``.
    """
    k = attempts.k
    names = [contract.primary, *(name for name in contract.metrics if name != contract.primary)]
    if k == 1:
        return [SeriesPlan(name, contract.metrics[name], Reducer.NATIVE, 1) for name in names]
    if stops_at_success(contract, attempts):
        return [SeriesPlan(contract.primary, MetricKind.BINARY, Reducer.PASS, k)]
    plans: list[SeriesPlan] = []
    for name in names:
        kind = contract.metrics[name]
        plans.append(SeriesPlan(name, kind, Reducer.AVG, k))
        if kind is MetricKind.BINARY:
            plans.append(SeriesPlan(name, kind, Reducer.PASS, k))
    return plans


def stops_at_success(contract: MetricContract, attempts: AttemptsSpec) -> bool:
    """True when a task needs no attempt after the first success."""
    return (
        attempts.k > 1
        and attempts.strategy is AttemptStrategy.PASS
        and contract.primary_kind is MetricKind.BINARY
    )
