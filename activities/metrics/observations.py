"""From stored records to what the reducers need, with every observation checked."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...contracts.errors import RecordError
from ...contracts.issues import Issue, IssueCode, IssuePhase, Severity
from ...contracts.metrics import AttemptObservation, MetricContract, MetricKind, TaskObservations
from ...contracts.records import AttemptRecord, TaskRecord
from ...contracts.request import AttemptStrategy
from .text import one_line

MAX_METRIC_ISSUES = 20
"""A verifier that returns thousands of wrong metrics must not fill the record with issues."""

_MESSAGE_LENGTH = 300
_WORST_FIRST = (Severity.FATAL, Severity.ERROR, Severity.WARNING)

Number = bool | int | float


def check_metrics(
    metrics: Mapping[str, object], contract: MetricContract
) -> tuple[dict[str, Number], list[Issue]]:
    """Split what a verifier returned into observations and complaints.

    A binary metric is a JSON boolean, a scalar one a finite number that is not a boolean. Each
    undeclared or ill-typed metric is left out and becomes an ERROR ``metric_invalid`` of phase
    ``evaluate``; the others are kept. At most ``MAX_METRIC_ISSUES`` issues and one that counts the rest.
    """
    valid: dict[str, Number] = {}
    problems: list[str] = []
    for name, value in metrics.items():
        problem = _problem(name, value, contract)
        if problem:
            problems.append(problem)
        else:
            valid[name] = _plain(value)
    issues = [_metric_issue(problem) for problem in problems[:MAX_METRIC_ISSUES]]
    if len(problems) > MAX_METRIC_ISSUES:
        issues.append(_metric_issue(f"{len(problems) - MAX_METRIC_ISSUES} more metrics are invalid"))
    return valid, issues


def observe_task(record: TaskRecord, contract: MetricContract) -> TaskObservations:
    """What ``record`` contributes to the metrics.

    Raises ``RecordError`` when an attempt's key is not a number counted from 1.
    """
    attempts = [
        observe_attempt(_attempt_number(key, record.task_id), attempt, contract)
        for key, attempt in record.attempts.items()
    ]
    return TaskObservations(
        task_id=record.task_id,
        category=record.category,
        attempts=sorted(attempts, key=lambda item: item.attempt),
        expected_attempts=record.attempt_plan.k,
        # Under `pass` no attempt follows a success, whether or not the record says so in words.
        stopped_early=record.stopped_early
        or (
            record.attempt_plan.strategy is AttemptStrategy.PASS
            and any(item.metrics.get(contract.primary) is True for item in attempts)
        ),
    )


def observe_attempt(number: int, record: AttemptRecord, contract: MetricContract) -> AttemptObservation:
    """What one stored attempt contributes; its metrics are checked against today's contract again."""
    metrics, complaints = check_metrics(record.metrics, contract)
    issues = [*record.issues, *complaints]
    severities = {issue.severity for issue in issues}
    return AttemptObservation(
        attempt=number,
        metrics=metrics,
        fatal=Severity.FATAL in severities,
        error=Severity.ERROR in severities,
        status=record.status,
        issue=_first_of_the_worst(issues),
    )


def _problem(name: object, value: object, contract: MetricContract) -> str:
    """Why this observation is refused; empty when it is fine. Never quotes text that a verifier read."""
    kind = contract.metrics.get(name) if isinstance(name, str) else None
    shown = one_line(str(name), 80)
    if kind is None:
        return f"metric {shown!r} is not declared; declared are {', '.join(sorted(contract.metrics))}"
    if kind is MetricKind.BINARY:
        return (
            "" if isinstance(value, bool) else f"metric {shown!r} must be true or false, not {_told(value)}"
        )
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"metric {shown!r} must be a number, not {_told(value)}"
    return "" if _is_finite(value) else f"metric {shown!r} must be a finite number, not {_told(value)}"


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the range of a float cannot take part in a mean
        return False


def _told(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, float | bool):
        return f"{value} ({type(value).__name__})"
    return f"a value of type {type(value).__name__}"


def _plain(value: object) -> Number:
    """The JSON value of an accepted observation (a NumPy or enum number loses its type)."""
    if isinstance(value, bool):
        return value
    return int(value) if isinstance(value, int) else float(value)  # type: ignore[arg-type]  # accepted above


def _metric_issue(message: str) -> Issue:
    return Issue(
        severity=Severity.ERROR, phase=IssuePhase.EVALUATE, code=IssueCode.METRIC_INVALID, message=message
    )


def _first_of_the_worst(issues: list[Issue]) -> Issue | None:
    for severity in _WORST_FIRST:
        for issue in issues:
            if issue.severity is severity:
                return issue.model_copy(update={"message": one_line(issue.message, _MESSAGE_LENGTH)})
    return None


def _attempt_number(key: str, task_id: str) -> int:
    if not key.isascii() or not key.isdecimal() or key.startswith("0"):
        raise RecordError(f"task {task_id!r}: {key!r} is not an attempt number")
    return int(key)
