"""Totals over a run, and their page."""

from typing import Any

import pytest

from agentcompass.activities.analysis import AnalysisMeter, render_analysis
from agentcompass.contracts import AnalysisFinding, AnalyzerResult, TaskStatus
from agentcompass.contracts.records import AnalysisSummary, AttemptRecord, LabelTotals, TaskRecord
from agentcompass.contracts.request import AttemptsSpec


def found(*labels: str | tuple[str, Any]) -> AnalyzerResult:
    pairs = [(label, None) if isinstance(label, str) else label for label in labels]
    return AnalyzerResult(findings=[AnalysisFinding(label=label, value=value) for label, value in pairs])


def task(task_id: str, *attempts: dict[str, AnalyzerResult], category: str = "") -> TaskRecord:
    return TaskRecord(
        task_id=task_id,
        category=category,
        attempt_plan=AttemptsSpec(k=len(attempts)),
        attempts={
            str(number): AttemptRecord(status=TaskStatus.COMPLETED, issues=[], analysis_result=results)
            for number, results in enumerate(attempts, start=1)
        },
    )


def summary_of(*records: TaskRecord) -> AnalysisSummary:
    meter = AnalysisMeter()
    for record in records:
        meter.add(record)
    summary = meter.summary("qa")
    assert summary is not None
    return summary


def label_of(summary: AnalysisSummary, name: str) -> LabelTotals:
    [label] = [item for analyzer in summary.analyzers for item in analyzer.labels if item.label == name]
    return label


def test_labels_are_counted_by_finding_attempt_and_task() -> None:
    summary = summary_of(
        task("q1", {"a": found("slow", "slow")}, {"a": found("slow")}, category="x"),
        task("q2", {"a": found("slow", "odd")}, category="y"),
        task("q3", {"a": found()}),
    )
    [analyzer] = summary.analyzers
    assert (analyzer.analyzer, analyzer.attempts, analyzer.failed) == ("a", 4, 0)
    slow = label_of(summary, "slow")
    assert (slow.findings, slow.attempts, slow.tasks) == (4, 3, 2)
    assert (slow.examples, slow.categories) == (["q1", "q2"], {"x": 2, "y": 1})
    assert [label.label for label in analyzer.labels] == ["slow", "odd"]


def test_numbers_are_added_up_and_other_values_are_not() -> None:
    summary = summary_of(
        task("q1", {"a": found(("n", 4), ("n", 1.5), ("n", True), ("n", "9"), ("n", float("nan")))})
    )
    values = label_of(summary, "n").values
    assert values is not None
    assert (values.count, values.total, values.minimum, values.maximum) == (2, 5.5, 1.5, 4.0)


def test_the_coverage_tells_attempts_that_nobody_looked_at() -> None:
    summary = summary_of(task("q1", {"a": found()}, {}), task("q2", {}))
    assert (summary.tasks, summary.attempts, summary.analyzed_attempts) == (2, 3, 1)


def test_failures_are_counted_with_their_first_reasons() -> None:
    errors = [AnalyzerResult(error=f"E{number % 7}") for number in range(9)]
    [analyzer] = summary_of(*(task(f"q{n}", {"a": error}) for n, error in enumerate(errors))).analyzers
    assert (analyzer.attempts, analyzer.failed) == (9, 9)
    assert analyzer.errors == ["E0", "E1", "E2", "E3", "E4"]


def test_an_analyzer_that_invents_labels_does_not_fill_the_memory() -> None:
    summary = summary_of(*(task(f"q{n}", {"a": found(f"label {n}")}) for n in range(1200)))
    [analyzer] = summary.analyzers
    assert len(analyzer.labels) == 1001
    assert label_of(summary, "(other labels)").attempts == 200


def test_there_is_no_summary_without_any_analysis() -> None:
    meter = AnalysisMeter()
    meter.add(task("q1", {}))
    assert meter.summary("qa") is None


def test_the_page_shows_counts_shares_values_and_failures() -> None:
    page = render_analysis(
        summary_of(
            task("q1", {"usage": found(("tokens", 100)), "bad": AnalyzerResult(error="KeyError: 'x'")}),
            task("q2", {"usage": found(("tokens", 300)), "bad": found()}),
            task("q3", {"usage": found()}),
        )
    )
    assert "**3/3 attempts analysed** of 3 finished tasks" in page
    assert "| tokens | 2 | 66.7 % | 2 | 2 | 200 | 100 to 300 | q1, q2 |" in page
    assert "**Failed on 1 of 2 attempts**: KeyError: 'x'" in page


@pytest.mark.parametrize("hostile", ["a|b", "<img src=x>", "[x](http://y)", "new\nline"])
def test_labels_and_task_ids_are_literal_text_in_the_page(hostile: str) -> None:
    page = render_analysis(summary_of(task(hostile, {"a": found(hostile)})))
    assert hostile not in page
    [row] = [line for line in page.splitlines() if "100.0 %" in line]
    assert row.count(" | ") == 7
