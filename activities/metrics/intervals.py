"""Confidence intervals of a (weighted) mean over tasks.

The task is the unit: attempts of one task are not independent, so they enter as one value.

- ``wilson``: Wilson's score interval (Wilson 1927; method 3 in Newcombe, "Two-sided confidence
  intervals for the single proportion", Statistics in Medicine 17, 1998), for tasks that are 0 or 1.
- ``student-t``: mean ± t · standard error, for tasks with values in between and for scalars.

With unequal weights (category means and trees) both use Kish's effective number of tasks,
(Σw)² / Σw², and the standard error is that of a weighted mean, n/(n-1) · Σ w²(x - mean)², w adding up to 1
(Cochran 1977). With equal weights these are the textbook formulas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

from ...contracts.metrics import Interval, MetricKind
from .student_t import t_quantile

LEVEL = 0.95
WILSON = "wilson"
STUDENT_T = "student-t"


def interval_of(
    value: float, values: Sequence[float], weights: Sequence[float], kind: MetricKind
) -> Interval | None:
    """The 95 % interval of ``value``, the mean of the tasks' ``values`` with ``weights``.

    A rate always has one, unless there is no task. A scalar has none when its spread cannot be
    told: fewer than two (effective) tasks, or all values equal.
    """
    if not values:
        return None
    total = math.fsum(weights)
    shares = [weight / total for weight in weights]
    effective = 1.0 / math.fsum(share * share for share in shares)
    if kind is MetricKind.BINARY and all(item in (0.0, 1.0) for item in values):
        return wilson_interval(value, effective)
    interval = student_t_interval(value, values, shares, effective)
    if kind is not MetricKind.BINARY:
        return interval
    if interval is None:  # a rate without visible spread is still a rate
        return wilson_interval(value, effective)
    return interval.model_copy(update={"low": max(0.0, interval.low), "high": min(1.0, interval.high)})


def wilson_interval(rate: float, n: float, level: float = LEVEL) -> Interval:
    """Wilson's score interval of ``rate``, observed over ``n`` (effective) tasks, n > 0."""
    z = NormalDist().inv_cdf(0.5 + level / 2.0)
    centre = rate + z * z / (2.0 * n)
    spread = z * math.sqrt(rate * (1.0 - rate) / n + z * z / (4.0 * n * n))
    scale = 1.0 + z * z / n
    # At 0 and 1 the formula touches the bound exactly; rounding must not push it inside or across.
    low = 0.0 if rate == 0.0 else max(0.0, (centre - spread) / scale)
    high = 1.0 if rate == 1.0 else min(1.0, (centre + spread) / scale)
    return Interval(method=WILSON, level=level, low=low, high=high)


def student_t_interval(
    value: float, values: Sequence[float], shares: Sequence[float], effective: float, level: float = LEVEL
) -> Interval | None:
    """mean ± t · standard error; ``None`` when the spread of ``values`` cannot be told.

    ``shares`` are weights that add up to 1, ``effective`` is the effective number of tasks; the
    degrees of freedom are one less.
    """
    n = len(values)
    if n < 2 or effective < 2.0 - 1e-9 or min(values) == max(values):
        return None
    try:
        error = math.sqrt(
            n
            / (n - 1)
            * math.fsum((share * (x - value)) ** 2 for share, x in zip(shares, values, strict=True))
        )
    except OverflowError:  # values near the end of the range of a float
        return None
    margin = t_quantile(0.5 + level / 2.0, effective - 1.0) * error
    if not math.isfinite(value - margin) or not math.isfinite(value + margin):
        return None
    return Interval(method=STUDENT_T, level=level, low=value - margin, high=value + margin)
