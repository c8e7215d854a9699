"""One task, one series: the rules as tables."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.activities.metrics.reducers import pass_at_k, reduce_task
from agentcompass.activities.metrics.series import SeriesPlan, plan_series
from agentcompass.contracts.issues import Issue, IssuePhase, Severity
from agentcompass.contracts.metrics import (
    AttemptObservation,
    MetricContract,
    MetricKind,
    MetricState,
    Reducer,
    TaskObservations,
)
from agentcompass.contracts.request import AttemptsSpec, AttemptStrategy
from agentcompass.contracts.result import TaskStatus

EVALUATED, UNAVAILABLE, INVALIDATED = MetricState.EVALUATED, MetricState.UNAVAILABLE, MetricState.INVALIDATED
NATIVE = SeriesPlan("correct", MetricKind.BINARY, Reducer.NATIVE, 1)


def avg(k: int) -> SeriesPlan:
    return SeriesPlan("correct", MetricKind.BINARY, Reducer.AVG, k)


def passed(k: int) -> SeriesPlan:
    return SeriesPlan("correct", MetricKind.BINARY, Reducer.PASS, k)


def task(*values: bool | None, stopped_early: bool = False, fatal: int = 0) -> TaskObservations:
    """Attempts 1, 2, … with these observations; attempt number ``fatal`` ended with a FATAL."""
    return TaskObservations(
        task_id="t",
        attempts=[
            AttemptObservation(
                attempt=number, metrics={} if value is None else {"correct": value}, fatal=number == fatal
            )
            for number, value in enumerate(values, start=1)
        ],
        stopped_early=stopped_early,
    )


T, F, N = True, False, None


@pytest.mark.parametrize(
    ("plan", "observed", "state", "value"),
    [
        (NATIVE, task(T), EVALUATED, 1.0),
        (NATIVE, task(F), EVALUATED, 0.0),
        (NATIVE, task(N), UNAVAILABLE, None),
        (NATIVE, task(), UNAVAILABLE, None),
        (NATIVE, task(T, F, F, T), EVALUATED, 0.5),
        (avg(3), task(T, F, T), EVALUATED, 2 / 3),
        (avg(3), task(F, F, F), EVALUATED, 0.0),
        (avg(3), task(T, N, T), UNAVAILABLE, None),
        (avg(3), task(T, T), UNAVAILABLE, None),
        (avg(3), task(T, stopped_early=True), UNAVAILABLE, None),
        (avg(2), task(T, N, T), EVALUATED, 1.0),
        (passed(3), task(F, N, F), UNAVAILABLE, None),
        (passed(3), task(F, F), UNAVAILABLE, None),
        (passed(3), task(F, F, F), EVALUATED, 0.0),
        (passed(3), task(F, F, T), EVALUATED, 1.0),
        (passed(3), task(N, T, N), EVALUATED, 1.0),
        (passed(3), task(T, stopped_early=True), EVALUATED, 1.0),
        (passed(3), task(F, T, stopped_early=True), EVALUATED, 1.0),
        (passed(2), task(T, F, F, F), EVALUATED, 0.5),
        (passed(2), task(T, F, F, N), EVALUATED, 2 / 3),
        (passed(2), task(F, F, T, stopped_early=True), EVALUATED, 0.0),
        (passed(3), task(T, N, F, fatal=2), INVALIDATED, None),
        (avg(3), task(T, T, T, fatal=3), INVALIDATED, None),
        (NATIVE, task(T, fatal=1), INVALIDATED, None),
        (NATIVE, task(T, N, fatal=2), INVALIDATED, None),
    ],
)
def test_a_task_reduces_to_its_state_and_value(
    plan: SeriesPlan, observed: TaskObservations, state: MetricState, value: float | None
) -> None:
    reduced = reduce_task(observed, plan)
    assert (reduced.state, reduced.value) == (state, pytest.approx(value) if value is not None else None)
    assert (reduced.absence is None) is (state is EVALUATED)


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (5, 0, 3, 0.0),
        (5, 1, 3, 0.6),
        (5, 2, 3, 0.9),
        (5, 3, 3, 1.0),
        (10, 3, 1, 0.3),
        (10, 5, 2, 7 / 9),
        (4, 2, 4, 1.0),
        (200, 1, 100, 0.5),
        (10_000, 1, 1, 0.0001),
        (10_000, 1, 9_999, 0.9999),
    ],
)
def test_pass_at_k_is_the_unbiased_estimate(n: int, c: int, k: int, expected: float) -> None:
    assert pass_at_k(n, c, k) == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize(("n", "c", "k"), [(3, 1, 4), (3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_pass_at_k_is_refused_where_it_is_not_defined(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="is not defined"):
        pass_at_k(n, c, k)


@given(st.data())
def test_pass_at_k_is_the_share_of_successful_draws(data: st.DataObject) -> None:
    outcomes = data.draw(st.lists(st.booleans(), min_size=1, max_size=7))
    k = data.draw(st.integers(1, len(outcomes)))
    draws = list(combinations(outcomes, k))
    share = sum(any(draw) for draw in draws) / len(draws)
    assert pass_at_k(len(outcomes), sum(outcomes), k) == pytest.approx(share)


def test_scalars_keep_their_range_in_a_mean() -> None:
    plan = SeriesPlan("score", MetricKind.SCALAR, Reducer.AVG, 2)
    attempts = [AttemptObservation(attempt=number, metrics={"score": 1.5e308}) for number in (1, 2)]
    assert reduce_task(TaskObservations(task_id="t", attempts=attempts), plan).value == 1.5e308


TIMEOUT = Issue(severity=Severity.ERROR, phase=IssuePhase.EVALUATE, code="evaluation_timeout", message="slow")


@pytest.mark.parametrize(
    ("plan", "attempts", "code", "reason"),
    [
        (NATIVE, [], "not_run", "no attempt finished"),
        (
            NATIVE,
            [AttemptObservation(attempt=1)],
            "not_observed",
            "attempt 1: the verifier returned no 'correct'",
        ),
        (
            NATIVE,
            [AttemptObservation(attempt=1, status=TaskStatus.SKIPPED)],
            "skipped",
            "attempt 1 was skipped",
        ),
        (
            NATIVE,
            [AttemptObservation(attempt=1, error=True, issue=TIMEOUT)],
            "evaluation_timeout",
            "attempt 1: evaluation_timeout: slow",
        ),
        (
            NATIVE,
            [AttemptObservation(attempt=1, metrics={"score": 1}, error=True, issue=TIMEOUT)],
            "not_observed",
            "attempt 1: the verifier returned no 'correct'",
        ),
        (
            avg(3),
            [AttemptObservation(attempt=1, metrics={"correct": True})],
            "not_run",
            "1 of 3 attempts finished",
        ),
        (
            avg(2),
            [
                AttemptObservation(attempt=1, metrics={"correct": True}),
                AttemptObservation(attempt=2, error=True, issue=TIMEOUT),
            ],
            "evaluation_timeout",
            "1 of 2 attempts scored; attempt 2: evaluation_timeout: slow",
        ),
    ],
)
def test_an_absent_task_says_why(
    plan: SeriesPlan, attempts: list[AttemptObservation], code: str, reason: str
) -> None:
    absence = reduce_task(TaskObservations(task_id="t", attempts=attempts), plan).absence
    assert absence is not None
    assert (absence.code, absence.reason) == (code, reason)


def test_a_task_without_a_readable_record_says_what_was_wrong_with_it() -> None:
    observed = TaskObservations(task_id="t", issue=TIMEOUT)
    absence = reduce_task(observed, NATIVE).absence
    assert absence is not None
    assert (absence.code, absence.reason) == ("evaluation_timeout", "slow")


BOTH = MetricContract(
    primary="correct",
    metrics={"score": MetricKind.SCALAR, "correct": MetricKind.BINARY, "lint": MetricKind.BINARY},
)
SCORE = MetricContract(primary="score", metrics={"score": MetricKind.SCALAR, "correct": MetricKind.BINARY})


@pytest.mark.parametrize(
    ("contract", "k", "strategy", "ids"),
    [
        (BOTH, 1, AttemptStrategy.AVG, ["correct.native@1", "score.native@1", "lint.native@1"]),
        (BOTH, 1, AttemptStrategy.PASS, ["correct.native@1", "score.native@1", "lint.native@1"]),
        (
            BOTH,
            3,
            AttemptStrategy.AVG,
            ["correct.avg@3", "correct.pass@3", "score.avg@3", "lint.avg@3", "lint.pass@3"],
        ),
        (BOTH, 3, AttemptStrategy.PASS, ["correct.pass@3"]),
        (SCORE, 3, AttemptStrategy.PASS, ["score.avg@3", "correct.avg@3", "correct.pass@3"]),
    ],
)
def test_the_series_of_a_run_follow_from_contract_and_plan(
    contract: MetricContract, k: int, strategy: AttemptStrategy, ids: list[str]
) -> None:
    assert [plan.id for plan in plan_series(contract, AttemptsSpec(k=k, strategy=strategy))] == ids
