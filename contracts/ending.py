"""An operator's decision to end a phase that gets nowhere."""

from __future__ import annotations

from .base import Contract
from .issues import Issue, IssueCode, Severity
from .phases import ISSUE_PHASES, Phase
from .references import ExecutionRef

ANY_PHASE = "any"


class OperatorEnd(Contract):
    """An operator's decision to end the phase that runs, and to go on with what it left."""

    phase: str
    """:data:`ANY_PHASE` for an execution in one step: nobody outside knows how far that is."""
    reason: str = ""


class EndPhaseInput(Contract):
    """Write the decision down where whoever executes the phase finds it."""

    ref: ExecutionRef
    end: OperatorEnd


def ended_issue(end: OperatorEnd) -> Issue:
    """Stands beside the score, if there is one: the run can still be final. For a decision about one phase."""
    reason = f": {end.reason}" if end.reason else ""
    return Issue(
        severity=Severity.ERROR,
        phase=ISSUE_PHASES[Phase(end.phase)],
        code=IssueCode.ENDED_BY_OPERATOR,
        message=f"{end.phase} was ended by an operator{reason}",
    )


def at_most_error(issue: Issue) -> Issue:
    """Whoever ends an agent takes what there is, also when that is nothing."""
    fatal = issue.severity is Severity.FATAL
    return issue.model_copy(update={"severity": Severity.ERROR}) if fatal else issue
