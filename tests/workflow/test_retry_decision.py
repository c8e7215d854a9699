"""The retry decision as a pure function: severity, phase, mode, budget, patterns, delays."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from activity_fakes import issue

from agentcompass.contracts.issues import Issue, IssueCode, IssuePhase, Severity
from agentcompass.contracts.plan import RetryPlan
from agentcompass.contracts.request import EvaluationMode
from agentcompass.contracts.retries import (
    blocking_issue,
    decide_retry,
    is_settled,
    retry_delay,
    scope_when_unblocked,
)

FATAL, ERROR, WARNING = Severity.FATAL, Severity.ERROR, Severity.WARNING
RUN, EVALUATE, CLEANUP = IssuePhase.RUN, IssuePhase.EVALUATE, IssuePhase.CLEANUP
RUN_PHASES = [IssuePhase.SETUP, IssuePhase.RUN, IssuePhase.COLLECT]


@dataclass(frozen=True)
class Row:
    """Issues of an execution, and what follows: scope, stage and what matched; ``None`` for no retry."""

    issues: list[Issue]
    expected: tuple[str, str, str] | None
    mode: str = "none"
    patterns: list[str] | None = None
    budget: int = 1
    used: int = 0
    has_result: bool = True


judge = issue(FATAL, EVALUATE, "judge_failed", "the judge said 500")
verifier = issue(ERROR, EVALUATE, "evaluation_failed", "KeyError: 'score'")
timeout = issue(ERROR, RUN, "harness_timeout", "the run budget is used up")
crash = issue(FATAL, RUN, "harness_failed", "it crashed")
lost = issue(FATAL, IssuePhase.SETUP, "environment_lost", "gone")
ended = issue(ERROR, RUN, "ended_by_operator", "run_harness was ended by an operator")
ended_judge = issue(ERROR, EVALUATE, "ended_by_operator", "evaluate was ended by an operator")
leak = issue(WARNING, CLEANUP, "cleanup_failed", "still there")

ROWS = {
    "nothing wrong": Row([], None),
    "a fatal without a budget": Row([crash], None, budget=0),
    "a fatal with the budget used up": Row([crash], None, budget=2, used=2),
    "a fatal with one retry left": Row([crash], ("attempt", "run", "fatal"), budget=2, used=1),
    "a fatal needs no pattern": Row([crash], ("attempt", "run", "fatal"), patterns=[]),
    "a fatal of the setup": Row([lost], ("attempt", "setup", "fatal"), has_result=False),
    "an error without patterns": Row([timeout], None),
    "an error with no patterns": Row([timeout], None, patterns=[]),
    "an error that no pattern matches": Row([timeout], None, patterns=["rate.?limit"]),
    "an error matched by its code": Row([timeout], ("attempt", "run", "^harness_"), patterns=["^harness_"]),
    "an error matched by its message": Row([timeout], ("attempt", "run", "budget"), patterns=["x", "budget"]),
    "code and message are not joined": Row([timeout], None, patterns=["harness_timeout.*budget"]),
    "issues are not joined": Row([timeout, verifier], None, patterns=["used up.*KeyError"]),
    "a warning that a pattern matches": Row([leak], None, patterns=["."]),
    "the first matching pattern is told": Row(
        [verifier], ("evaluate", "evaluate", "Key"), patterns=["Key", "."]
    ),
    "a fatal before an error that came first": Row(
        [timeout, judge], ("evaluate", "evaluate", "fatal"), patterns=["nothing"]
    ),
    "a verdict alone, none": Row([judge], ("evaluate", "evaluate", "fatal")),
    "a verdict alone, fresh": Row([judge], ("evaluate", "evaluate", "fatal"), mode="fresh"),
    "a verdict alone, reuse": Row([judge], ("attempt", "evaluate", "fatal"), mode="reuse"),
    "a verdict without a stored result": Row([judge], ("attempt", "evaluate", "fatal"), has_result=False),
    "an error of the verifier": Row([verifier], ("evaluate", "evaluate", "KeyError"), patterns=["KeyError"]),
    "a verdict beside an unmatched error of the run": Row(
        [timeout, judge], ("evaluate", "evaluate", "fatal")
    ),
    "a verdict beside a matched error of the run": Row(
        [timeout, judge], ("attempt", "evaluate", "fatal"), patterns=["harness_timeout"]
    ),
    "a verdict and a fatal of the run": Row([crash, judge], ("attempt", "run", "fatal")),
    "an operator's decision, whatever the patterns": Row([ended], None, patterns=["."]),
    "an operator's decision, and a failed collection": Row([ended, crash], None),
    "an operator's decision, and a failed verdict": Row([ended, judge], ("evaluate", "evaluate", "fatal")),
    "an operator's decision, and a failed verdict in the same environment": Row(
        [ended, judge], None, mode="reuse"
    ),
    "a verdict that an operator ended": Row([ended_judge, judge], None),
    "a warning does not widen the scope": Row([judge, leak], ("evaluate", "evaluate", "fatal")),
}


@pytest.mark.parametrize("name", ROWS)
def test_decision(name: str) -> None:
    row = ROWS[name]
    policy = RetryPlan(max_retries=row.budget, retry_pattern_list=row.patterns)
    decision = decide_retry(row.issues, policy, row.used, EvaluationMode(row.mode), has_result=row.has_result)
    found = decision and (decision.scope.value, decision.stage.value, decision.matched_pattern)
    assert found == row.expected


@pytest.mark.parametrize("mode", list(EvaluationMode))
@pytest.mark.parametrize("phase", RUN_PHASES)
def test_trouble_before_the_evaluation_repeats_the_whole_attempt(
    phase: IssuePhase, mode: EvaluationMode
) -> None:
    decision = decide_retry([issue(FATAL, phase)], RetryPlan(max_retries=1), 0, mode, has_result=True)
    assert decision is not None and decision.scope.value == "attempt"


@pytest.mark.parametrize(
    ("retry", "unit", "seconds"),
    [
        (1, 0.0, 2.5),
        (1, 0.5, 3.75),
        (2, 0.0, 5.0),
        (3, 0.5, 15.0),
        (4, 0.0, 20.0),
        (5, 0.0, 30.0),
        (1000, 0.5, 45.0),
    ],
)
def test_the_delay_doubles_up_to_its_maximum_and_is_jittered(retry: int, unit: float, seconds: float) -> None:
    assert retry_delay(RetryPlan(), retry, unit) == seconds


def test_no_delay_when_it_is_configured_away() -> None:
    assert retry_delay(RetryPlan(min_delay_seconds=0, max_delay_seconds=0), 3, 0.9) == 0.0


@pytest.mark.parametrize(
    ("issues", "code"),
    [
        ([], None),
        ([timeout, crash], None),
        ([leak, issue(FATAL, RUN, "model_quota")], "model_quota"),
        ([issue(FATAL, EVALUATE, "judge_refused")], "judge_refused"),
        ([issue(ERROR, RUN, "model_authentication")], None),
    ],
)
def test_only_a_fatal_refusal_of_the_account_blocks(issues: list[Issue], code: str | None) -> None:
    found = blocking_issue(issues)
    assert (found.code if found else None) == code


@pytest.mark.parametrize(
    ("phase", "mode", "has_result", "scope"),
    [
        (EVALUATE, "none", True, "evaluate"),
        (EVALUATE, "fresh", True, "evaluate"),
        (EVALUATE, "reuse", True, "attempt"),
        (EVALUATE, "none", False, "attempt"),
        (RUN, "none", True, "attempt"),
    ],
)
def test_a_judge_s_refusal_costs_the_agent_s_work_only_where_its_environment_is_needed(
    phase: IssuePhase, mode: str, has_result: bool, scope: str
) -> None:
    found = scope_when_unblocked(issue(FATAL, phase), EvaluationMode(mode), has_result=has_result)
    assert found.value == scope


@pytest.mark.parametrize(
    ("issues", "budget", "settled"),
    [
        ([], 1, True),
        ([leak], 1, True),
        ([crash], 0, True),
        ([crash], 1, False),
        ([issue(FATAL, RUN, IssueCode.MODEL_AUTHENTICATION, "401")], 0, False),
    ],
    ids=["nothing", "a warning", "no budget", "a retry follows", "the account is refused"],
)
def test_a_first_execution_is_settled_when_nothing_follows(
    issues: list[Issue], budget: int, settled: bool
) -> None:
    policy = RetryPlan(max_retries=budget)
    assert is_settled(issues, policy, EvaluationMode.NONE, has_result=True) is settled
