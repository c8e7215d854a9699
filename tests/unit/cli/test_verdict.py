"""Gates, results in text, and the exit code that follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcompass.cli.result_text import render_result
from agentcompass.cli.verdict import Gates, exit_code_of, judge, judge_launch, parse_gates
from agentcompass.contracts import UsageError
from agentcompass.contracts.launch import LaunchResult, LaunchStatus, LaunchStatusName, RequestResult
from agentcompass.contracts.metrics import Interval, MetricCounts, MetricKind, MetricReport, MetricSeries

COUNTS = MetricCounts(total=10, evaluated=8, unavailable=2)


def finished(
    folder: Path, value: float | None = 0.75, status: str = "completed", **values: object
) -> LaunchResult:
    series = MetricSeries(
        id="correct.native@1",
        metric="correct",
        reducer="native",
        k=1,
        kind=MetricKind.BINARY,
        value=value,
        interval=Interval(method="wilson", level=0.95, low=0.4, high=0.9),
        counts=COUNTS,
    )
    report = MetricReport(benchmark="quiz", primary="correct.native@1", counts=COUNTS, series=[series])
    (folder / "metrics.json").write_text(report.model_dump_json())
    request = RequestResult(
        key="1-quiz-chat",
        run_dir=str(folder),
        status=status,
        total_tasks=10,
        evaluated_tasks=8,
        unavailable_tasks=2,
    )
    return LaunchResult(launch_id="l1", status=status, requests=[request], **values)


@pytest.mark.parametrize(
    ("fail_under", "max_unevaluated", "code"),
    [
        ([], None, 0),
        (["correct=0.75"], None, 0),
        (["correct=0.76"], None, 1),
        (["correct.native@1=0.5"], None, 0),
        (["correct=0.5", "correct=0.9"], None, 1),
        ([], 2, 0),
        ([], 1, 1),
    ],
)
def test_gates_decide_over_a_completed_launch(tmp_path, fail_under, max_unevaluated, code):
    gates = parse_gates(fail_under, max_unevaluated)
    assert judge_launch(finished(tmp_path), gates).exit_code == code


def test_failed_gate_says_why(tmp_path):
    verdict = judge_launch(finished(tmp_path), parse_gates(["correct=0.9"], None))
    assert len(verdict.reasons) == 1
    assert "0.75" in verdict.reasons[0]
    assert "0.9" in verdict.reasons[0]


def test_missing_official_value_does_not_pass(tmp_path):
    assert judge_launch(finished(tmp_path, value=None), parse_gates(["correct=0"], None)).exit_code == 1


def test_unknown_metric_does_not_pass(tmp_path):
    verdict = judge_launch(finished(tmp_path), parse_gates(["corect=0"], None))
    assert verdict.exit_code == 1
    assert "corect" in verdict.reasons[0]


def test_gate_without_metrics_file_does_not_pass(tmp_path):
    result = finished(tmp_path)
    (tmp_path / "metrics.json").unlink()
    assert judge_launch(result, parse_gates(["correct=0"], None)).exit_code == 1
    assert judge_launch(result, parse_gates([], None)).exit_code == 0


@pytest.mark.parametrize("status", ["failed", "timed_out", "cancelled"])
def test_launch_that_did_not_complete_is_not_valid(tmp_path, status):
    assert judge_launch(finished(tmp_path, status=status), parse_gates([], None)).exit_code == 1


def test_exit_code_of_the_launch_is_kept(tmp_path):
    assert (
        judge_launch(finished(tmp_path, status="failed", exit_code=3), parse_gates([], None)).exit_code == 3
    )


@pytest.mark.parametrize("text", ["correct", "correct=", "=1", "correct=x", "correct=nan"])
def test_malformed_gate_is_refused(text):
    with pytest.raises(UsageError, match="--fail-under: "):
        parse_gates([text], None)


def test_negative_bound_is_refused():
    with pytest.raises(UsageError, match="--max-unevaluated"):
        parse_gates([], -1)


def test_result_text_begins_with_the_number_its_interval_and_its_coverage(tmp_path):
    lines = render_result(finished(tmp_path), "http://ui").splitlines()
    assert lines[0].startswith("Result: correct.native@1 = 0.7500 (95% CI ")
    assert lines[0].index("0.4000") < lines[0].index("0.9000") < lines[0].index("8/10 tasks evaluated")
    assert "2 NOT evaluated" in lines[0]
    assert lines[1:] == [
        "Status: completed",
        f"Run directory: {tmp_path}",
        "Launch: l1 (completed)",
        "Temporal UI: http://ui",
    ]


def test_result_text_without_metrics_file_uses_the_numbers_of_the_result():
    request = RequestResult(
        key="k", status="failed", total_tasks=4, evaluated_tasks=3, invalidated_tasks=1, primary="correct",
        reference_value=0.5, error="a task is FATAL",
    )  # fmt: skip
    text = render_result(LaunchResult(launch_id="l", status="failed", requests=[request]))
    assert text.splitlines()[:3] == [
        "Result: no official score; reference only: correct = 0.5000 | 3/4 tasks evaluated | 1 NOT evaluated",
        "Status: failed",
        "Reason: a task is FATAL",
    ]


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("running", 0),
        ("paused", 0),
        ("completed", 0),
        ("failed", 1),
        ("partial_failure", 1),
        ("cancelled", 130),
    ],
)
def test_the_state_of_a_launch_as_an_exit_code(state: LaunchStatusName, code: int) -> None:
    assert exit_code_of(LaunchStatus(launch_id="l", state=state)) == code


@pytest.mark.parametrize(
    ("status", "own", "code"),
    [("completed", 0, 0), ("failed", 1, 1), ("timed_out", 0, 1), ("cancelled", 130, 130)],
)
def test_a_run_that_is_not_valid_never_ends_with_0(status: str, own: int, code: int) -> None:
    """As `summary` judges it, which has no launch to ask."""
    assert judge([RequestResult(key="one", status=status, exit_code=own)], Gates()).exit_code == code


def test_records_that_cannot_be_read_are_a_reason_even_where_nobody_can_name_them() -> None:
    verdict = judge([RequestResult(key="one", status="completed", damaged_records=2)], Gates())
    assert (verdict.exit_code, verdict.reasons) == (1, ["one: 2 task records cannot be read"])
