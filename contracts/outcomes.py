"""What became of an attempt, in one word."""

from __future__ import annotations

from .activities import AttemptOutcome
from .result import TaskStatus

OUTCOME_WORDS = ("passed", "failed", "scored", "error", "fatal", "not_evaluated")
"""Every word that :func:`outcome_word` returns."""


def outcome_word(outcome: AttemptOutcome) -> str:
    """One word for filters and metrics: passed, failed, scored, error, fatal or not_evaluated."""
    if outcome.fatal:
        return "fatal"
    if outcome.success is not None:
        return "passed" if outcome.success else "failed"
    if outcome.error:
        return "error"
    return "scored" if outcome.status == TaskStatus.COMPLETED else "not_evaluated"
