"""From an exception to an Issue: one table, one place. See ``docs/issues.md``."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from ..contracts.environment import EnvironmentLostError
from ..contracts.errors import StageFailure
from ..contracts.issues import Issue, IssueCode, IssuePhase, Severity
from ..contracts.phases import ISSUE_PHASES, Phase
from .redaction import REDACTOR

MESSAGE_LIMIT = 2000


@dataclass(frozen=True)
class Classification:
    """What an unclassified exception in a phase means."""

    severity: Severity
    code: IssueCode


UNCLASSIFIED: dict[Phase, Classification] = {
    Phase.PLAN: Classification(Severity.FATAL, IssueCode.SETUP_FAILED),
    Phase.OPEN_ENVIRONMENT: Classification(Severity.FATAL, IssueCode.ENVIRONMENT_OPEN_FAILED),
    Phase.PREPARE_TASK: Classification(Severity.FATAL, IssueCode.SETUP_FAILED),
    Phase.START_HARNESS: Classification(Severity.FATAL, IssueCode.HARNESS_FAILED),
    Phase.RUN_HARNESS: Classification(Severity.FATAL, IssueCode.HARNESS_FAILED),
    Phase.RUN_TASK: Classification(Severity.FATAL, IssueCode.HARNESS_FAILED),
    Phase.COLLECT_ARTIFACTS: Classification(Severity.FATAL, IssueCode.ARTIFACT_COLLECTION_FAILED),
    Phase.EVALUATE_ENVIRONMENT: Classification(Severity.FATAL, IssueCode.ENVIRONMENT_OPEN_FAILED),
    Phase.EVALUATE: Classification(Severity.ERROR, IssueCode.EVALUATION_FAILED),
    Phase.CLOSE_ENVIRONMENT: Classification(Severity.WARNING, IssueCode.CLEANUP_FAILED),
    Phase.SAVE_PARTIAL: Classification(Severity.FATAL, IssueCode.INTERNAL_ERROR),
    Phase.ANALYZE: Classification(Severity.WARNING, IssueCode.INTERNAL_ERROR),
}
"""A verifier that raises leaves its observation absent (ERROR); a harness that raises is FATAL."""

_TIMEOUTS: dict[Phase, Classification] = {
    Phase.RUN_HARNESS: Classification(Severity.ERROR, IssueCode.HARNESS_TIMEOUT),
    Phase.RUN_TASK: Classification(Severity.ERROR, IssueCode.HARNESS_TIMEOUT),
    Phase.EVALUATE: Classification(Severity.ERROR, IssueCode.EVALUATION_TIMEOUT),
}


def classify(error: BaseException, phase: Phase) -> Issue:
    """The issue that an exception of a hook stands for; its message is one masked line."""
    if isinstance(error, StageFailure):
        issue = error.issue
        return issue.model_copy(update={"message": one_line(issue.message)})
    if isinstance(error, EnvironmentLostError):
        severity = Severity.WARNING if phase is Phase.CLOSE_ENVIRONMENT else Severity.FATAL
        return make_issue(severity, ISSUE_PHASES[phase], IssueCode.ENVIRONMENT_LOST, describe(error))
    found = UNCLASSIFIED[phase]
    if _caused_by_timeout(error):
        found = _TIMEOUTS.get(phase, found)
    return make_issue(found.severity, ISSUE_PHASES[phase], found.code, describe(error))


def make_issue(severity: Severity, phase: IssuePhase, code: str, message: str) -> Issue:
    """An issue with a masked one-line message of bounded length."""
    return Issue(severity=severity, phase=phase, code=code, message=one_line(message))


def describe(error: BaseException) -> str:
    """``Type: first line``, as users see it."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def one_line(text: str) -> str:
    """The first non-empty line, secrets masked, cut to a bounded length."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return REDACTOR.text(lines[0] if lines else "no message")[:MESSAGE_LIMIT]


def diagnostics_of(error: BaseException) -> str:
    """The whole exception chain as text, secrets masked; for ``artifacts.execution_diagnostics``."""
    return REDACTOR.text("".join(traceback.format_exception(error)))


def _caused_by_timeout(error: BaseException) -> bool:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        if isinstance(current, TimeoutError):
            return True
        seen.add(id(current))
        current = current.__cause__ or current.__context__
    return False
