"""The whole report: counts, coverage, exclusions, official and reference values."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.activities.metrics import build_report
from agentcompass.contracts.issues import Issue, IssuePhase, Severity
from agentcompass.contracts.metrics import (
    BENCHMARK_DEFAULT_CONTRACT,
    AggregationMode,
    AggregationSpec,
    AttemptCoverage,
    AttemptObservation,
    CategoryHierarchy,
    MetricContract,
    MetricCounts,
    MetricKind,
    MetricReport,
    MetricState,
    TaskObservations,
)
from agentcompass.contracts.request import AttemptsSpec, AttemptStrategy

QUOTA = Issue(severity=Severity.FATAL, phase=IssuePhase.RUN, code="model_quota", message="no credit")
CONTRACT = MetricContract(
    primary="correct", metrics={"correct": MetricKind.BINARY, "score": MetricKind.SCALAR}
)


def attempt(
    number: int, correct: bool | None, error: bool = False, fatal: bool = False
) -> AttemptObservation:
    return AttemptObservation(
        attempt=number,
        metrics={} if correct is None else {"correct": correct},
        error=error,
        fatal=fatal,
        issue=QUOTA if fatal else None,
    )


def task(task_id: str, *correct: bool | None, category: str = "", stopped: bool = False) -> TaskObservations:
    attempts = [attempt(number, value) for number, value in enumerate(correct, start=1)]
    return TaskObservations(task_id=task_id, category=category, attempts=attempts, stopped_early=stopped)


def report(
    *tasks: TaskObservations,
    k: int = 1,
    strategy: AttemptStrategy = AttemptStrategy.AVG,
    contract: MetricContract = BENCHMARK_DEFAULT_CONTRACT,
    aggregation: AggregationSpec | None = None,
) -> MetricReport:
    return build_report("bench", contract, AttemptsSpec(k=k, strategy=strategy), tasks, aggregation)


INVALID = TaskObservations(
    task_id="z", category="x", attempts=[attempt(1, True), attempt(2, None, fatal=True)]
)


def test_the_headline_stands_beside_its_counts_and_interval() -> None:
    found = report(task("a", True), task("b", False), task("c", None), task("d"))
    series = found.headline()
    assert series is not None
    assert (series.id, series.value, series.reference_value) == ("correct.native@1", 0.5, None)
    assert series.counts == MetricCounts(total=4, evaluated=2, unavailable=2)
    assert series.attempt_coverage == AttemptCoverage(expected=4, valid=2)
    assert series.interval is not None
    # Wilson for 1 of 2: (0.5 + 0.9604 ± 1.96 · sqrt(0.125 + 0.2401)) / 2.9207
    assert (round(series.interval.low, 3), round(series.interval.high, 3)) == (0.095, 0.905)


def test_one_fatal_attempt_takes_every_official_value_away() -> None:
    found = report(task("a", True, False), task("b", False, False), INVALID, k=2)
    assert found.evaluation_failed is True
    assert [(s.id, s.value, s.interval, s.reference_value) for s in found.series] == [
        ("correct.avg@2", None, None, 0.25),
        ("correct.pass@2", None, None, 0.5),
    ]
    assert found.counts == MetricCounts(total=3, evaluated=2, invalidated=1, error=1)
    assert found.attempt_coverage == AttemptCoverage(expected=6, valid=5, error=1)
    assert all(s.reference_interval is not None for s in found.series)


def test_a_success_beside_a_fatal_does_not_count_under_pass() -> None:
    found = report(INVALID, task("a", False, False), k=2, strategy=AttemptStrategy.PASS)
    assert [(s.id, s.value, s.reference_value) for s in found.series] == [("correct.pass@2", None, 0.0)]


def test_with_nothing_but_invalidated_tasks_there_is_no_reference_value_either() -> None:
    series = report(INVALID, k=2).headline()
    assert series is not None
    assert (series.value, series.reference_value, series.counts.invalidated) == (None, None, 1)


def test_category_values_are_not_official_when_the_evaluation_failed() -> None:
    series = report(INVALID, task("a", True, True, category="x"), k=2).headline()
    assert series is not None
    assert (series.categories["x"].value, series.categories["x"].reference_value) == (None, 1.0)


def test_an_early_stop_after_a_success_is_complete() -> None:
    found = report(
        task("a", True, stopped=True), task("b", False, False, False), k=3, strategy=AttemptStrategy.PASS
    )
    assert (found.series[0].value, found.counts.unavailable) == (0.5, 0)
    assert found.attempt_coverage == AttemptCoverage(expected=4, valid=4)


def test_an_early_stop_without_a_success_is_missing_attempts() -> None:
    found = report(task("a", False, stopped=True), k=3, strategy=AttemptStrategy.PASS)
    assert (found.counts.unavailable, found.attempt_coverage.expected) == (1, 3)


def test_errors_are_counted_beside_the_state_and_attempts_once() -> None:
    scored = TaskObservations(
        task_id="a", attempts=[attempt(1, True, error=True), attempt(2, True, error=True)]
    )
    found = report(scored, k=2)
    assert found.counts == MetricCounts(total=1, evaluated=1, error=1)
    assert found.attempt_coverage == AttemptCoverage(expected=2, valid=2, error=2)


def test_every_task_that_is_left_out_is_listed_with_its_reason() -> None:
    found = report(task("a", True, None), task("b", True, True), INVALID, k=2)
    assert [(e.task_id, e.state, e.code, e.reason, e.series) for e in found.exclusions] == [
        (
            "z",
            MetricState.INVALIDATED,
            "model_quota",
            "attempt 2: model_quota: no credit",
            ["correct.avg@2", "correct.pass@2"],
        ),
        (
            "a",
            MetricState.UNAVAILABLE,
            "not_observed",
            "1 of 2 attempts scored; attempt 2: the verifier returned no 'correct'",
            ["correct.avg@2"],
        ),
    ]


def test_a_metric_that_one_task_lacks_is_absent_in_its_own_series_only() -> None:
    both = TaskObservations(
        task_id="a", attempts=[AttemptObservation(attempt=1, metrics={"correct": True, "score": 3})]
    )
    found = report(both, task("b", False), contract=CONTRACT)
    assert [(s.id, s.value, s.counts.evaluated) for s in found.series] == [
        ("correct.native@1", 0.5, 2),
        ("score.native@1", 3.0, 1),
    ]


def test_tasks_outside_of_the_tree_are_left_out_visibly() -> None:
    spec = AggregationSpec(
        mode=AggregationMode.CATEGORY_HIERARCHY,
        hierarchy=CategoryHierarchy.model_validate(
            {"overall": {"aggregation": "unweighted", "children": {"x": {}, "y": {}}}}
        ),
    )
    found = report(
        task("a", True, category="x"),
        task("b", False, category="y"),
        task("c", True, category="other"),
        aggregation=spec,
    )
    assert (found.series[0].value, found.counts.unavailable) == (0.5, 1)
    assert [(e.task_id, e.code) for e in found.exclusions] == [("c", "category_unplaced")]
    hierarchy = found.series[0].hierarchy
    assert [(path, node.value, node.weight, node.counts.total) for path, node in hierarchy.items()] == [
        ("overall", 0.5, None, 2),
        ("overall/x", 1.0, 0.5, 1),
        ("overall/y", 0.0, 0.5, 1),
    ]


def test_categories_are_told_only_when_tasks_have_some() -> None:
    assert report(task("a", True)).series[0].categories == {}
    mixed = report(task("a", True), task("b", True, category="x")).series[0].categories
    assert list(mixed) == ["__uncategorized__", "x"]


def test_a_run_without_tasks_has_an_empty_report() -> None:
    found = report()
    assert (found.series[0].value, found.counts, found.evaluation_failed) == (None, MetricCounts(), False)


def test_a_repeated_task_id_is_refused() -> None:
    with pytest.raises(ValueError, match="1 task ids occur more than once, the first is 'a'"):
        report(task("a", True), task("a", False))


def test_a_report_survives_its_json() -> None:
    found = report(task("a", True, False), INVALID, k=2)
    assert MetricReport.model_validate_json(found.model_dump_json()) == found


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[TaskObservations], AttemptsSpec, AggregationSpec]:
    k = draw(st.integers(1, 4))
    tasks = []
    for number in range(draw(st.integers(0, 12))):
        outcomes = draw(st.lists(st.sampled_from([True, False, None]), max_size=5))
        attempts = [
            attempt(index, value, error=draw(st.booleans()), fatal=draw(st.integers(0, 30)) == 30)
            for index, value in enumerate(outcomes, start=1)
        ]
        tasks.append(
            TaskObservations(
                task_id=f"t{number}",
                category=draw(st.sampled_from(["", "x", "y"])),
                attempts=attempts,
                stopped_early=draw(st.booleans()),
            )
        )
    mode = draw(st.sampled_from([AggregationMode.MICRO, AggregationMode.CATEGORY_MEAN]))
    strategy = draw(st.sampled_from(list(AttemptStrategy)))
    return tasks, AttemptsSpec(k=k, strategy=strategy), AggregationSpec(mode=mode)


@given(runs())
def test_in_any_run_counts_add_up_and_values_stay_in_range(
    run: tuple[list[TaskObservations], AttemptsSpec, AggregationSpec],
) -> None:
    tasks, attempts, aggregation = run
    found = build_report("bench", BENCHMARK_DEFAULT_CONTRACT, attempts, tasks, aggregation)
    for series in found.series:
        for part in (series, *series.categories.values()):
            counts, coverage = part.counts, part.attempt_coverage
            assert counts.evaluated + counts.unavailable + counts.invalidated == counts.total
            assert 0 <= counts.error <= counts.total
            assert 0 <= coverage.valid <= coverage.expected
            assert part.value is None or part.reference_value is None
            number = part.value if part.value is not None else part.reference_value
            interval = part.interval or part.reference_interval
            assert (number is None) == (counts.evaluated == 0) == (interval is None)
            if number is not None and interval is not None:
                assert 0.0 <= interval.low <= number <= interval.high <= 1.0
        listed = {entry.task_id for entry in found.exclusions if series.id in entry.series}
        assert len(listed) == series.counts.unavailable + series.counts.invalidated
        if found.evaluation_failed:
            assert series.value is None and series.interval is None


@given(runs(), st.randoms(use_true_random=False))
def test_the_order_of_tasks_does_not_matter(
    run: tuple[list[TaskObservations], AttemptsSpec, AggregationSpec], shuffler: random.Random
) -> None:
    tasks, attempts, aggregation = run
    shuffled = list(tasks)
    shuffler.shuffle(shuffled)
    assert build_report("bench", BENCHMARK_DEFAULT_CONTRACT, attempts, tasks, aggregation) == build_report(
        "bench", BENCHMARK_DEFAULT_CONTRACT, attempts, shuffled, aggregation
    )
