"""Gates: when a finished run must not count as good (``--fail-under``, ``--max-unevaluated``)."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...contracts.errors import UsageError
from ...contracts.metrics import MetricContract, MetricReport, MetricSeries
from ...contracts.request import AttemptsSpec
from .series import plan_series


@dataclass(frozen=True)
class Gate:
    """The least official value of a series, named by its id or by its metric."""

    metric: str
    value: float


def parse_gate(text: str) -> Gate:
    """``correct=0.8`` or ``correct.pass@3=0.8``. Raises ``UsageError`` for anything else."""
    metric, sign, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not sign or not metric.strip() or not math.isfinite(value):
        raise UsageError(f"{text!r} is not a gate; write METRIC=NUMBER, as in correct=0.8")
    return Gate(metric.strip(), value)


def check_gate_names(gates: Sequence[Gate], contract: MetricContract, attempts: AttemptsSpec) -> None:
    """Refuse gates that no report of this run can answer, before it starts. Raises ``UsageError``."""
    plans = plan_series(contract, attempts)
    for gate in gates:
        if gate.metric not in {name for plan in plans for name in (plan.id, plan.metric)}:
            raise _unknown(gate, [(plan.id, plan.metric) for plan in plans])


def check_gates(
    report: MetricReport, fail_under: Sequence[Gate] = (), max_unevaluated: int | None = None
) -> list[str]:
    """The reasons why ``report`` does not pass, one line each; empty when it does.

    A metric's name stands for its first series: the headline for the primary metric, ``native`` or
    ``avg`` for another. A series without an official value does not pass. ``max_unevaluated`` bounds the
    tasks that the headline series does not count, unavailable and invalidated.
    Raises ``UsageError`` for an unknown name or a negative bound.
    """
    if max_unevaluated is not None and max_unevaluated < 0:
        raise UsageError("max_unevaluated must not be negative")
    reasons = [reason for gate in fail_under if (reason := _failure(gate, _find(gate, report)))]
    missing = report.counts.unavailable + report.counts.invalidated
    if max_unevaluated is not None and missing > max_unevaluated:
        reasons.append(
            f"{missing} of {report.counts.total} tasks not evaluated, allowed are {max_unevaluated}"
        )
    return reasons


def _failure(gate: Gate, series: MetricSeries) -> str:
    counts = f"{series.counts.evaluated}/{series.counts.total} tasks evaluated"
    if series.value is None:
        return f"{series.id} has no official value ({counts}), required is {gate.value:g}"
    if series.value < gate.value:
        return f"{series.id} is {series.value} ({counts}), required is {gate.value:g}"
    return ""


def _find(gate: Gate, report: MetricReport) -> MetricSeries:
    for series in report.series:
        if gate.metric in (series.id, series.metric):
            return series
    raise _unknown(gate, [(series.id, series.metric) for series in report.series])


def _unknown(gate: Gate, names: Sequence[tuple[str, str]]) -> UsageError:
    known = list(dict.fromkeys(name for pair in names for name in pair))
    nearest = difflib.get_close_matches(gate.metric, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(nearest)}?" if nearest else f"known are {', '.join(known)}"
    return UsageError(f"no metric or series is called {gate.metric!r}; {hint}")
