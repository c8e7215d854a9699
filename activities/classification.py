"""From an exception to an Issue: one table, one place. See ``docs/issues.md``."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from ..contracts.environment import EnvironmentLostError
from ..contracts.errors import StageFailure
from ..contracts.issues import BLOCKING_CODES, Issue, IssueCode, IssuePhase, Severity
from ..contracts.phases import ISSUE_PHASES, Phase
from .redaction import REDACTOR

MESSAGE_LIMIT = 2000
DIAGNOSTICS_LIMIT = 200_000
"""Characters kept of a traceback, half of them from its end, where the exception is."""

_SCANNED = 20_000
_SHOWN_ERRORS = 3
_TRACEBACK = "Traceback (most recent call last):"
_MODEL_CODES = "model_"


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

_WORST_FIRST = list(Severity)


_AT_LEAST: dict[Phase, Severity] = {
    Phase.PLAN: Severity.FATAL,
    Phase.OPEN_ENVIRONMENT: Severity.FATAL,
    Phase.PREPARE_TASK: Severity.FATAL,
    Phase.START_HARNESS: Severity.ERROR,
    Phase.EVALUATE_ENVIRONMENT: Severity.FATAL,
    Phase.EVALUATE: Severity.ERROR,
}
"""Raising ends these phases, so that there is no score: whatever the author called it, that is no remark."""


def classify(error: BaseException, phase: Phase) -> Issue:
    """The issue that an exception of a hook stands for; its message is one masked line.

    What its author named counts, also when it was wrapped (``raise … from``) or came out of a task
    group, of which the worst exception counts. A vanished environment is recognised behind any other.
    """
    return known_issue(error, phase) or _unclassified(error, phase)


def overdue(phase: Phase) -> Classification:
    """What it means that a hook of ``phase`` did not end in time."""
    return _TIMEOUTS.get(phase, UNCLASSIFIED[phase])


def known_issue(error: BaseException, phase: Phase) -> Issue | None:
    """The issue of an exception that says by itself what it is; ``None`` for any other."""
    for cause in _chain(error, implicit=False):
        if isinstance(cause, StageFailure):
            return _of_author(_refusal_behind(cause, phase) or cause.issue, phase)
        if isinstance(cause, BaseExceptionGroup):
            return _worst_of(cause.exceptions, phase)
    for cause in _chain(error, implicit=True):
        if isinstance(cause, EnvironmentLostError):
            severity = Severity.WARNING if phase is Phase.CLOSE_ENVIRONMENT else Severity.FATAL
            return make_issue(severity, ISSUE_PHASES[phase], IssueCode.ENVIRONMENT_LOST, describe(cause))
    return None


def _refusal_behind(failure: StageFailure, phase: Phase) -> Issue | None:
    """The refused account behind what a benchmark's author calls a failed judge."""
    if phase is not Phase.EVALUATE or failure.issue.code != IssueCode.JUDGE_FAILED:
        return None
    causes = (item.issue for item in _chain(failure, implicit=True) if isinstance(item, StageFailure))
    return next((issue for issue in causes if issue.code in BLOCKING_CODES), None)


def _unclassified(error: BaseException, phase: Phase) -> Issue:
    found = UNCLASSIFIED[phase]
    if any(isinstance(cause, TimeoutError) for cause in _chain(error, implicit=True)):
        found = _TIMEOUTS.get(phase, found)
    return make_issue(found.severity, ISSUE_PHASES[phase], found.code, describe(error))


def _of_author(issue: Issue, phase: Phase) -> Issue:
    """The named issue, at least as bad as the end of the phase.

    A model that fails during the evaluation is the judge: nothing of it may count as the agent's.
    """
    if phase is Phase.EVALUATE and issue.code.startswith(_MODEL_CODES):
        message = f"{issue.code}: {issue.message}"
        code = IssueCode.JUDGE_REFUSED if issue.code in BLOCKING_CODES else IssueCode.JUDGE_FAILED
        return make_issue(Severity.FATAL, IssuePhase.EVALUATE, code, message)
    if phase is Phase.EVALUATE and issue.code == IssueCode.SECRET_UNAVAILABLE:
        issue = issue.model_copy(update={"phase": IssuePhase.EVALUATE})
    least = _AT_LEAST.get(phase, Severity.WARNING)
    if _WORST_FIRST.index(issue.severity) > _WORST_FIRST.index(least):
        issue = issue.model_copy(update={"severity": least})
    return tidy(issue)


def _worst_of(errors: Sequence[BaseException], phase: Phase) -> Issue:
    """The worst issue of a group; of two that are equally bad, the one that its author named."""
    named = [issue for issue in (known_issue(error, phase) for error in errors) if issue]
    issues = [*named, *(_unclassified(error, phase) for error in errors if not known_issue(error, phase))]
    return min(issues, key=lambda issue: _WORST_FIRST.index(issue.severity))


def _chain(error: BaseException, *, implicit: bool) -> Iterator[BaseException]:
    """The exception and its causes; ``implicit`` also goes to what was being handled meanwhile."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        yield current
        seen.add(id(current))
        hidden = current.__suppress_context__ or not implicit
        current = current.__cause__ or (None if hidden else current.__context__)


def make_issue(severity: Severity, phase: IssuePhase, code: str, message: object) -> Issue:
    """An issue with a masked one-line message of bounded length."""
    return Issue(severity=severity, phase=phase, code=code, message=one_line(_text(message)))


def tidy(issue: Issue) -> Issue:
    """The issue as it may be shown anywhere: its message one masked line."""
    message = one_line(issue.message)
    return issue if message == issue.message else issue.model_copy(update={"message": message})


def describe(error: BaseException) -> str:
    """``Type: first line``, as users see it; of a failed validation the fields and what is wrong with them."""
    text = (_validation_text(error) if isinstance(error, ValidationError) else _text(error)).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _validation_text(error: ValidationError) -> str:
    """In one line, because the first of pydantic's own says nothing but how many errors there are."""
    found = error.errors(include_url=False, include_input=False, include_context=False)
    shown = [
        f"{'.'.join((error.title, *map(str, item['loc'])))}: {item['msg']}" for item in found[:_SHOWN_ERRORS]
    ]
    more = f"; and {len(found) - len(shown)} more" if len(found) > len(shown) else ""
    return "; ".join(shown) + more


def _text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # an extension's __str__ may raise anything; the failure behind it must not be lost
        return f"<{type(value).__name__} without a readable text>"


def one_line(text: str) -> str:
    """The line that says most, secrets masked, cut to a bounded length; always fit for UTF-8.

    That is the first one; of a traceback the last; and a line that only announces the next (it ends in
    a colon) is joined with it.
    """
    # Masked before it is split: a key may span lines.
    lines = [line.strip() for line in REDACTOR.text(text[:_SCANNED]).splitlines() if line.strip()]
    if lines and lines[0].endswith(_TRACEBACK):
        lines = [lines[0].removesuffix(_TRACEBACK) + lines[-1]]
    line = lines.pop(0) if lines else "no message"
    while lines and line.endswith(":"):
        line = f"{line} {lines.pop(0)}"
    return line[:MESSAGE_LIMIT].encode("utf-8", "replace").decode("utf-8")


def says_more(message: object) -> bool:
    """Whether a text holds more than the one line of it that an issue shows."""
    text = _text(message).strip()
    return text != one_line(text) and ("\n" in text or "\r" in text or len(text) > MESSAGE_LIMIT)


def diagnostics_of(error: BaseException) -> str:
    """The exception chain as text, secrets masked; for ``artifacts.execution_diagnostics``."""
    text = REDACTOR.text("".join(traceback.format_exception(error)))
    half = DIAGNOSTICS_LIMIT // 2
    if len(text) <= DIAGNOSTICS_LIMIT:
        return text
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"
