"""Gates turn a report into reasons to fail."""

from __future__ import annotations

import pytest

from agentcompass.activities.metrics import Gate, build_report, check_gate_names, check_gates, parse_gate
from agentcompass.contracts.errors import UsageError
from agentcompass.contracts.metrics import (
    BENCHMARK_DEFAULT_CONTRACT,
    AttemptObservation,
    MetricReport,
    TaskObservations,
)
from agentcompass.contracts.request import AttemptsSpec


def report(*outcomes: bool | None, fatal: bool = False, k: int = 1) -> MetricReport:
    tasks = [
        TaskObservations(
            task_id=f"t{number}",
            attempts=[
                AttemptObservation(
                    attempt=index,
                    metrics={} if value is None else {"correct": value},
                    fatal=fatal and number == 0,
                )
                for index in range(1, k + 1)
            ],
        )
        for number, value in enumerate(outcomes)
    ]
    return build_report("bench", BENCHMARK_DEFAULT_CONTRACT, AttemptsSpec(k=k), tasks)


@pytest.mark.parametrize(
    ("text", "gate"),
    [
        ("correct=0.8", Gate("correct", 0.8)),
        ("correct.pass@3 = 1", Gate("correct.pass@3", 1.0)),
        ("score=-2e3", Gate("score", -2000.0)),
    ],
)
def test_a_gate_is_a_name_and_a_number(text: str, gate: Gate) -> None:
    assert parse_gate(text) == gate


@pytest.mark.parametrize(
    "text", ["correct", "correct=", "=0.8", "correct=high", "correct=nan", "correct=inf", ""]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"write METRIC=NUMBER, as in correct=0\.8"):
        parse_gate(text)


def test_a_value_at_the_gate_passes() -> None:
    assert check_gates(report(True, True, True, True, False), [Gate("correct", 0.8)]) == []


def test_a_value_below_the_gate_is_a_reason() -> None:
    assert check_gates(report(True, False), [Gate("correct.native@1", 0.8)]) == [
        "correct.native@1 is 0.5 (2/2 tasks evaluated), required is 0.8"
    ]


def test_a_reference_value_passes_no_gate() -> None:
    assert check_gates(report(True, True, fatal=True), [Gate("correct", 0.1)]) == [
        "correct.native@1 has no official value (1/2 tasks evaluated), required is 0.1"
    ]


@pytest.mark.parametrize(
    ("limit", "reasons"),
    [(2, []), (1, ["2 of 3 tasks not evaluated, allowed are 1"]), (None, [])],
)
def test_tasks_without_an_evaluation_are_bounded(limit: int | None, reasons: list[str]) -> None:
    assert check_gates(report(True, None, None), max_unevaluated=limit) == reasons


def test_invalidated_tasks_are_not_evaluated_either() -> None:
    assert check_gates(report(True, True, fatal=True), max_unevaluated=0) == [
        "1 of 2 tasks not evaluated, allowed are 0"
    ]


def test_a_metric_name_stands_for_the_headline_of_several_series() -> None:
    assert check_gates(report(True, False, k=2), [Gate("correct", 0.6)]) == [
        "correct.avg@2 is 0.5 (2/2 tasks evaluated), required is 0.6"
    ]


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match=r"no metric or series is called 'corect'; did you mean correct"):
        check_gates(report(True), [Gate("corect", 0.5)])


def test_an_unknown_name_is_refused_before_the_run() -> None:
    check_gate_names([Gate("correct.pass@3", 0.5)], BENCHMARK_DEFAULT_CONTRACT, AttemptsSpec(k=3))
    with pytest.raises(UsageError, match=r"did you mean correct\.native@1"):
        check_gate_names([Gate("correct.pass@3", 0.5)], BENCHMARK_DEFAULT_CONTRACT, AttemptsSpec(k=1))


def test_a_negative_bound_is_refused() -> None:
    with pytest.raises(UsageError, match="must not be negative"):
        check_gates(report(True), max_unevaluated=-1)
