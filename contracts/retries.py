"""The semantic retry decision: pure, so that workflows may take it and tests may table it."""

from __future__ import annotations

import re
from enum import StrEnum

from .base import Contract
from .issues import BLOCKING_CODES, Issue, IssueCode, IssuePhase, Severity
from .plan import RetryPlan
from .request import EvaluationMode

FATAL_PATTERN = "fatal"
"""``matched_pattern`` of a retry that a FATAL issue caused."""

HOST_LOST_PATTERN = "host_lost"
"""``matched_pattern`` of an execution that was lost with its host, which is no retry."""
MAX_HOST_LOSSES = 3
"""Executions of one attempt that may be lost with their hosts; after that a loss is like any FATAL."""


class RetryScope(StrEnum):
    """``attempt`` executes all again; ``evaluate`` only the verifier, on the stored result."""

    ATTEMPT = "attempt"
    EVALUATE = "evaluate"


class RetryDecision(Contract):
    """Why, and from where, an attempt is executed again."""

    scope: RetryScope
    stage: IssuePhase
    matched_pattern: str


def matched_by(issue: Issue, patterns: list[str] | None) -> str | None:
    """What makes an issue call for a retry: ``"fatal"``, or the pattern that matched; else ``None``.

    FATAL always does. An ERROR does when a pattern is found in its message or its code, each
    searched alone. A WARNING never does.
    """
    if issue.severity is Severity.FATAL:
        return FATAL_PATTERN
    if issue.severity is Severity.ERROR:
        for pattern in patterns or []:
            if re.search(pattern, issue.message) or re.search(pattern, issue.code):
                return pattern
    return None


def matching_issues(issues: list[Issue], patterns: list[str] | None) -> list[tuple[Issue, str]]:
    """All issues that call for a retry with what matched them, FATAL ones first."""
    found = [(issue, pattern) for issue in issues if (pattern := matched_by(issue, patterns)) is not None]
    return sorted(found, key=lambda item: item[0].severity is not Severity.FATAL)


def matching_issue(issues: list[Issue], patterns: list[str] | None) -> tuple[Issue, str] | None:
    """The issue that calls for a retry before all others, with what matched it."""
    return next(iter(matching_issues(issues, patterns)), None)


def decide_retry(
    issues: list[Issue], policy: RetryPlan, used: int, mode: EvaluationMode, *, has_result: bool
) -> RetryDecision | None:
    """Whether an execution with these issues is followed by another one.

    ``used`` counts the retries already spent of the attempt's shared budget. Only the verifier is
    repeated when all that calls for a retry is its own trouble, it does not share the task's
    environment (``none`` and ``fresh``), and an unscored result is stored. What an operator ended is not
    executed again by itself; another run that reuses this one may.
    """
    if used >= policy.max_retries:
        return None
    ended = {item.phase for item in issues if item.code == IssueCode.ENDED_BY_OPERATOR}
    others = [item for item in issues if item.code != IssueCode.ENDED_BY_OPERATOR]
    matching = matching_issues(others, policy.retry_pattern_list)
    if not matching:
        return None
    issue, pattern = matching[0]
    separate = mode in (EvaluationMode.NONE, EvaluationMode.FRESH)
    only_evaluation = all(item.phase is IssuePhase.EVALUATE for item, _ in matching)
    scope = RetryScope.EVALUATE if separate and only_evaluation and has_result else RetryScope.ATTEMPT
    if ended and (scope is RetryScope.ATTEMPT or IssuePhase.EVALUATE in ended):
        return None
    return RetryDecision(scope=scope, stage=issue.phase, matched_pattern=pattern)


def is_settled(issues: list[Issue], policy: RetryPlan, mode: EvaluationMode, *, has_result: bool) -> bool:
    """Whether nothing follows a first execution with these issues: no retry, and no waiting for an account."""
    return (
        blocking_issue(issues) is None
        and decide_retry(issues, policy, 0, mode, has_result=has_result) is None
    )


def blocking_issue(issues: list[Issue]) -> Issue | None:
    """The refusal of an account, which every other attempt would meet, too; ``None`` without one."""
    return next(
        (item for item in issues if item.severity is Severity.FATAL and item.code in BLOCKING_CODES), None
    )


def lost_host(issues: list[Issue]) -> Issue | None:
    """The loss of the execution's host; ``None`` without one."""
    return next(
        (item for item in issues if item.severity is Severity.FATAL and item.code == IssueCode.HOST_LOST),
        None,
    )


def scope_when_unblocked(refused: Issue, mode: EvaluationMode, *, has_result: bool) -> RetryScope:
    """What is executed again once somebody has mended the account: a judge's refusal does not cost the
    agent's work, as long as that is stored and its environment is not needed."""
    judged_apart = mode in (EvaluationMode.NONE, EvaluationMode.FRESH) and has_result
    return (
        RetryScope.EVALUATE if refused.phase is IssuePhase.EVALUATE and judged_apart else RetryScope.ATTEMPT
    )


def retry_delay(policy: RetryPlan, retry: int, unit: float) -> float:
    """Seconds before retry number ``retry`` (from 1): doubling from the minimum up to the maximum.

    ``unit`` is a random number in [0, 1); the delay lies in the upper half of the interval, so
    that attempts that failed together do not come back together.
    """
    full = min(policy.min_delay_seconds * 2 ** min(retry - 1, 30), policy.max_delay_seconds)
    return float(full * (0.5 + unit / 2))
