"""Intervals against published tables."""

from __future__ import annotations

import pytest

from agentcompass.activities.metrics.intervals import interval_of, wilson_interval
from agentcompass.activities.metrics.student_t import t_quantile
from agentcompass.contracts.metrics import Interval, MetricKind


def equal(values: list[float], kind: MetricKind) -> Interval | None:
    return interval_of(sum(values) / len(values), values, [1.0] * len(values), kind)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_values_of_newcombe_1998_table_1(
    successes: int, n: int, low: float, high: float
) -> None:
    interval = wilson_interval(successes / n, n)
    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


@pytest.mark.parametrize(
    ("p", "df", "expected"),
    [
        (0.975, 1, 12.7062),
        (0.975, 2, 4.3027),
        (0.975, 3, 3.1824),
        (0.975, 5, 2.5706),
        (0.975, 10, 2.2281),
        (0.975, 30, 2.0423),
        (0.975, 60, 2.0003),
        (0.975, 120, 1.9799),
        (0.95, 10, 1.8125),
        (0.995, 4, 4.6041),
        (0.025, 10, -2.2281),
        (0.5, 7, 0.0),
        (0.975, 1e7, 1.9600),
    ],
)
def test_t_quantiles_are_those_of_the_printed_table(p: float, df: float, expected: float) -> None:
    assert round(t_quantile(p, df), 4) == expected


def test_t_quantiles_run_on_smoothly_into_the_normal_quantile() -> None:
    assert t_quantile(0.975, 999_999.0) == pytest.approx(t_quantile(0.975, 1_000_001.0), abs=1e-5)


def test_the_mean_of_a_sample_has_the_textbook_interval() -> None:
    # mean 5, s = 2, n = 16: 5 ± 2.131 · 2 / 4 (t for 15 degrees of freedom, printed table)
    values = [5 - 15**0.5 / 2] * 4 + [5 + 15**0.5 / 2] * 4 + [5 - 15**0.5 / 2] * 4 + [5 + 15**0.5 / 2] * 4
    interval = equal(values, MetricKind.SCALAR)
    assert interval is not None
    assert interval.method == "student-t"
    assert (round(interval.low, 3), round(interval.high, 3)) == (3.934, 6.066)


def test_rates_of_zeros_and_ones_use_wilson() -> None:
    interval = equal([1.0] * 81 + [0.0] * 182, MetricKind.BINARY)
    assert interval is not None
    assert (interval.method, round(interval.low, 4), round(interval.high, 4)) == ("wilson", 0.2553, 0.3662)


def test_rates_of_fractions_use_t_within_the_unit_interval() -> None:
    interval = equal([1.0, 1.0, 1.0, 0.5], MetricKind.BINARY)
    assert interval is not None
    # mean 0.875, s = 0.25, t(3) = 3.182: 0.875 - 3.182 · 0.125 = 0.477
    assert (interval.method, round(interval.low, 3), interval.high) == ("student-t", 0.477, 1.0)


def test_rates_without_visible_spread_still_have_an_interval() -> None:
    interval = equal([0.5, 0.5, 0.5], MetricKind.BINARY)
    assert interval is not None
    assert interval.method == "wilson"
    assert interval.low < 0.5 < interval.high


@pytest.mark.parametrize("values", [[], [3.0], [2.0, 2.0, 2.0], [1.5e308, -1.5e308]])
def test_a_scalar_whose_spread_cannot_be_told_has_no_interval(values: list[float]) -> None:
    value = values[0] if values else 0.0
    assert interval_of(value, values, [1.0] * len(values), MetricKind.SCALAR) is None


def test_unequal_weights_count_as_fewer_tasks() -> None:
    # weights 3, 1, 1, 1: Kish's effective number is 36 / 12 = 3
    weighted = interval_of(0.5, [1.0, 0.0, 0.0, 0.0], [3.0, 1.0, 1.0, 1.0], MetricKind.BINARY)
    assert weighted is not None
    by_three = wilson_interval(0.5, 3)
    assert (weighted.low, weighted.high) == pytest.approx((by_three.low, by_three.high))


def test_the_bounds_of_all_and_nothing_are_exact() -> None:
    assert wilson_interval(0.0, 7).low == 0.0
    assert wilson_interval(1.0, 7).high == 1.0
