"""The interval of a difference between two runs of the same tasks.

A task is hard or easy in both runs, so the tasks are paired; treating the runs as independent would make
the interval several times too wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...contracts.metrics import Interval, MetricKind
from .intervals import LEVEL, interval_of, wilson_interval

NEWCOMBE_PAIRED = "newcombe-paired"


def paired_interval(
    old: Sequence[float], new: Sequence[float], weights: Sequence[float], difference: float, kind: MetricKind
) -> Interval | None:
    """The 95 % interval of ``difference``, the weighted mean of ``new`` minus ``old``, task by task.

    Rates of equally weighted tasks that are 0 or 1 get Newcombe's score interval, all others mean ± t ·
    standard error of the differences. ``None`` when the spread of the differences cannot be told.
    """
    plain = all(value in (0.0, 1.0) for value in (*old, *new)) and max(weights) - min(weights) < 1e-12
    if old and kind is MetricKind.BINARY and plain:
        both = sum(a == b == 1.0 for a, b in zip(old, new, strict=True))
        gained = sum(a < b for a, b in zip(old, new, strict=True))
        lost = sum(a > b for a, b in zip(old, new, strict=True))
        return newcombe_paired(both, gained, lost, len(old) - both - gained - lost)
    differences = [b - a for a, b in zip(old, new, strict=True)]
    return interval_of(difference, differences, weights, MetricKind.SCALAR)


def newcombe_paired(both: int, first: int, second: int, neither: int, level: float = LEVEL) -> Interval:
    """The interval of p(first) - p(second) from the four counts of a paired table with at least one pair.

    ``first`` are the pairs in which only the first succeeded. Method 10 of Newcombe, "Improved confidence
    intervals for the difference between binomial proportions based on paired data", Statistics in
    Medicine 17 (1998): Wilson's limits of both rates, squared and added, with their correlation.
    """
    n = both + first + second + neither
    rate_1, rate_2 = (both + first) / n, (both + second) / n
    one, two = wilson_interval(rate_1, n, level), wilson_interval(rate_2, n, level)
    phi = _correlation(both, first, second, neither)
    difference = (first - second) / n
    below = _combined(rate_1 - one.low, two.high - rate_2, phi)
    above = _combined(one.high - rate_1, rate_2 - two.low, phi)
    low, high = max(-1.0, difference - below), min(1.0, difference + above)
    return Interval(method=NEWCOMBE_PAIRED, level=level, low=low, high=high)


def _combined(a: float, b: float, phi: float) -> float:
    return math.sqrt(max(0.0, a * a - 2.0 * phi * a * b + b * b))


def _correlation(both: int, first: int, second: int, neither: int) -> float:
    """φ of the table; towards 0 by the paper's continuity correction, and 0 where a margin is empty."""
    margins = (both + first) * (second + neither) * (both + second) * (first + neither)
    if not margins:
        return 0.0
    excess = float(both * neither - first * second)
    if excess > 0:
        excess = max(0.0, excess - (both + first + second + neither) / 2)
    return excess / math.sqrt(margins)
