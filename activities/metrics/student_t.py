"""Quantiles of Student's t distribution, for any positive number of degrees of freedom."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_NORMAL_FROM = 1e6
"""From here on the normal quantile is exact to more digits than anybody reads (5e-6)."""

_TINY = 1e-300
_PRECISION = 1e-15
_MAX_TERMS = 10_000


@lru_cache(maxsize=4096)
def t_quantile(p: float, df: float) -> float:
    """The ``t`` with P(T <= t) = ``p`` for ``df`` degrees of freedom.

    Inverts the distribution function by bisection, to about 12 digits.
    Raises ``ValueError`` unless 0 < p < 1 and df > 0.
    """
    if not 0.0 < p < 1.0 or not df > 0.0:
        raise ValueError(f"no t quantile for p={p}, df={df}")
    if p < 0.5:
        return -t_quantile(1.0 - p, df)
    if p == 0.5:
        return 0.0
    if df >= _NORMAL_FROM:
        return NormalDist().inv_cdf(p)
    low, high = 0.0, 1.0
    while t_cdf(high, df) < p:
        low, high = high, high * 2.0
    while high - low > 1e-13 * high:
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        if t_cdf(middle, df) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2.0


def t_cdf(t: float, df: float) -> float:
    """P(T <= t) = 1 - I_x(df/2, 1/2) / 2 with x = df / (df + t²), for t >= 0 (DLMF 8.17)."""
    return 1.0 - 0.5 * _incomplete_beta(df / 2.0, 0.5, df / (df + t * t))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b)."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    # The fraction converges fast on this side of the mean; the other side follows by symmetry.
    if x < (a + 1.0) / (a + b + 2.0):
        return math.exp(log_front) * _beta_fraction(a, b, x) / a
    return 1.0 - math.exp(log_front) * _beta_fraction(b, a, 1.0 - x) / b


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction DLMF 8.17.22, evaluated by the modified method of Lentz."""
    c, d = 1.0, 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    result = d
    for m in range(1, _MAX_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for coefficient in (even, odd):
            d = 1.0 / _away_from_zero(1.0 + coefficient * d)
            c = _away_from_zero(1.0 + coefficient / c)
            result *= c * d
        if abs(c * d - 1.0) < _PRECISION:
            break
    return result


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
