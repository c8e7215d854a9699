"""Which finished attempts still count."""

import pytest

from agentcompass.activities.reuse.verdicts import Verdict, judge
from agentcompass.contracts import Issue, IssuePhase, Severity, TaskStatus
from agentcompass.contracts.records import AttemptRecord, Identity

SAME = Identity(task_digest="t", plan_digest="p")


def record(
    severity: Severity | None = None,
    *,
    identity: Identity | None = SAME,
    status: TaskStatus = TaskStatus.COMPLETED,
) -> AttemptRecord:
    issue = (
        Issue(severity=severity, phase=IssuePhase.RUN, code="model_timeout", message="after 30 s")
        if severity
        else None
    )
    return AttemptRecord(status=status, issues=[issue] if issue else [], identity=identity)


@pytest.mark.parametrize(
    ("found", "patterns", "verdict"),
    [
        (record(), None, Verdict.REUSED),
        (record(Severity.WARNING), ["."], Verdict.REUSED),
        (record(Severity.ERROR), None, Verdict.REUSED),
        (record(Severity.ERROR), [], Verdict.REUSED),
        (record(Severity.ERROR), ["^model_timeout$"], Verdict.MATCHED),
        (record(Severity.ERROR), ["after \\d+ s"], Verdict.MATCHED),
        (record(Severity.ERROR), ["another"], Verdict.REUSED),
        (record(Severity.FATAL), None, Verdict.FATAL),
        (record(status=TaskStatus.CANCELLED), None, Verdict.UNFINISHED),
        (record(status=TaskStatus.SKIPPED), None, Verdict.UNFINISHED),
        (record(identity=None), None, Verdict.UNIDENTIFIED),
        (record(Severity.FATAL, identity=None), None, Verdict.FATAL),
        (record(identity=Identity(task_digest="x", plan_digest="p")), None, Verdict.TASK_CHANGED),
        (record(identity=Identity(task_digest="t", plan_digest="x")), None, Verdict.PLAN_CHANGED),
    ],
)
def test_attempt_counts_unless_it_failed_or_was_about_something_else(
    found: AttemptRecord, patterns: list[str] | None, verdict: Verdict
) -> None:
    assert judge(found, SAME, patterns) is verdict


@pytest.mark.parametrize(
    ("patterns", "verdict"), [(None, Verdict.REUSED), (["^ended_by_operator$"], Verdict.MATCHED)]
)
def test_what_an_operator_ended_is_executed_again_by_a_run_that_asks_for_it(
    patterns: list[str] | None, verdict: Verdict
) -> None:
    ended = Issue(severity=Severity.ERROR, phase=IssuePhase.RUN, code="ended_by_operator", message="by hand")
    assert judge(record().model_copy(update={"issues": [ended]}), SAME, patterns) is verdict
