"""Checking what verifiers return, and reading it back from task records."""

from __future__ import annotations

from typing import Any

import pytest

from agentcompass.activities.metrics import check_metrics, observe_task
from agentcompass.contracts.errors import RecordError
from agentcompass.contracts.issues import Issue, IssuePhase, Severity
from agentcompass.contracts.metrics import MetricContract, MetricKind
from agentcompass.contracts.records import AttemptRecord, TaskRecord
from agentcompass.contracts.request import AttemptsSpec, AttemptStrategy
from agentcompass.contracts.result import TaskStatus

CONTRACT = MetricContract(
    primary="correct", metrics={"correct": MetricKind.BINARY, "score": MetricKind.SCALAR}
)


def issue(severity: Severity, code: str, message: str = "m") -> Issue:
    return Issue(severity=severity, phase=IssuePhase.RUN, code=code, message=message)


def record(
    attempts: dict[str, AttemptRecord], k: int = 1, strategy: AttemptStrategy = AttemptStrategy.AVG
) -> TaskRecord:
    return TaskRecord(
        task_id="t", category="c", attempt_plan=AttemptsSpec(k=k, strategy=strategy), attempts=attempts
    )


def attempt(
    metrics: dict[str, Any], *issues: Issue, status: TaskStatus = TaskStatus.COMPLETED
) -> AttemptRecord:
    return AttemptRecord(status=status, metrics=metrics, issues=list(issues))


@pytest.mark.parametrize(
    "metrics",
    [{"correct": True}, {"correct": False, "score": 3}, {"score": -0.5}, {}, {"score": 0}],
)
def test_declared_and_well_typed_metrics_are_kept_as_they_are(metrics: dict[str, Any]) -> None:
    valid, issues = check_metrics(metrics, CONTRACT)
    assert valid == metrics
    assert [type(value) for value in valid.values()] == [type(value) for value in metrics.values()]
    assert issues == []


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("correct", 1, "metric 'correct' must be true or false, not a value of type int"),
        ("correct", 0.0, "metric 'correct' must be true or false, not 0.0 (float)"),
        ("correct", "true", "metric 'correct' must be true or false, not a value of type str"),
        ("correct", None, "metric 'correct' must be true or false, not null"),
        ("score", True, "metric 'score' must be a number, not True (bool)"),
        ("score", "1", "metric 'score' must be a number, not a value of type str"),
        ("score", float("nan"), "metric 'score' must be a finite number, not nan (float)"),
        ("score", float("inf"), "metric 'score' must be a finite number, not inf (float)"),
        ("score", 10**400, "metric 'score' must be a finite number, not a value of type int"),
        ("extra", True, "metric 'extra' is not declared; declared are correct, score"),
    ],
)
def test_each_wrong_metric_becomes_one_evaluate_error(name: str, value: object, message: str) -> None:
    valid, issues = check_metrics({name: value}, CONTRACT)
    assert valid == {}
    assert [(item.severity, item.phase, item.code, item.message) for item in issues] == [
        (Severity.ERROR, IssuePhase.EVALUATE, "metric_invalid", message)
    ]


def test_a_wrong_metric_does_not_cost_the_right_ones() -> None:
    valid, issues = check_metrics({"correct": True, "score": float("nan")}, CONTRACT)
    assert valid == {"correct": True}
    assert len(issues) == 1


def test_text_of_a_wrong_metric_is_never_quoted() -> None:
    _, issues = check_metrics({"score": "sk-secret-value"}, CONTRACT)
    assert "secret" not in issues[0].message


def test_thousands_of_wrong_metrics_become_a_bounded_number_of_issues() -> None:
    _, issues = check_metrics({f"m{number}": 1 for number in range(5000)}, CONTRACT)
    assert len(issues) == 21
    assert issues[-1].message == "4980 more metrics are invalid"


def test_a_record_is_checked_against_the_contract_again() -> None:
    observed = observe_task(record({"1": attempt({"correct": True, "old": 1})}), CONTRACT)
    assert observed.attempts[0].metrics == {"correct": True}
    assert observed.attempts[0].error is True
    assert observed.attempts[0].issue is not None
    assert observed.attempts[0].issue.code == "metric_invalid"


def test_the_issue_shown_is_the_first_of_the_worst_severity_on_one_line() -> None:
    observed = observe_task(
        record(
            {
                "1": attempt(
                    {},
                    issue(Severity.WARNING, "w"),
                    issue(Severity.ERROR, "e"),
                    issue(Severity.FATAL, "f1", "one\n\x1b[31mtwo"),
                    issue(Severity.FATAL, "f2"),
                )
            }
        ),
        CONTRACT,
    )
    shown = observed.attempts[0]
    assert (shown.fatal, shown.error) == (True, True)
    assert shown.issue is not None
    assert (shown.issue.code, shown.issue.message) == ("f1", "one [31mtwo")


def test_a_warning_alone_is_neither_error_nor_fatal() -> None:
    observed = observe_task(record({"1": attempt({"correct": True}, issue(Severity.WARNING, "w"))}), CONTRACT)
    assert (observed.attempts[0].fatal, observed.attempts[0].error) == (False, False)


def test_attempts_are_ordered_by_number_and_not_by_text() -> None:
    observed = observe_task(record({"10": attempt({}), "2": attempt({}), "1": attempt({})}, k=10), CONTRACT)
    assert [item.attempt for item in observed.attempts] == [1, 2, 10]


@pytest.mark.parametrize("key", ["0", "01", "-1", "one", "", "²"])
def test_an_attempt_key_that_is_no_number_is_a_record_error(key: str) -> None:
    with pytest.raises(RecordError, match="is not an attempt number"):
        observe_task(record({key: attempt({})}), CONTRACT)


@pytest.mark.parametrize(
    ("strategy", "metrics", "stopped"),
    [
        (AttemptStrategy.PASS, {"correct": True}, True),
        (AttemptStrategy.PASS, {"correct": False}, False),
        (AttemptStrategy.AVG, {"correct": True}, False),
    ],
)
def test_under_pass_a_success_means_that_attempts_stopped_there(
    strategy: AttemptStrategy, metrics: dict[str, Any], stopped: bool
) -> None:
    observed = observe_task(record({"1": attempt(metrics)}, k=3, strategy=strategy), CONTRACT)
    assert observed.stopped_early is stopped
