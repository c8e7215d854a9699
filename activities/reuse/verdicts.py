"""Whether a finished attempt of another run still counts: one pure rule, and a name for each outcome."""

from __future__ import annotations

from enum import StrEnum

from ...contracts.issues import Severity
from ...contracts.records import AttemptRecord, Identity
from ...contracts.result import TaskStatus
from ...contracts.retries import matching_issue


class Verdict(StrEnum):
    """Each value completes the sentence "… attempts …" in the log."""

    REUSED = "are reused"
    FATAL = "ended with a FATAL issue"
    MATCHED = "have an ERROR that the retry patterns match"
    UNFINISHED = "were cancelled or skipped"
    UNIDENTIFIED = "were recorded without the identity of their task"
    TASK_CHANGED = "belong to a task whose content has changed"
    PLAN_CHANGED = "were planned differently"


def judge(record: AttemptRecord, current: Identity, patterns: list[str] | None) -> Verdict:
    """``current`` is the identity that the attempt would have in the new run, ``patterns`` its retry patterns."""
    identity = record.identity
    if identity is None:
        fatal = any(issue.severity is Severity.FATAL for issue in record.issues)
        return Verdict.FATAL if fatal else Verdict.UNIDENTIFIED
    if identity.task_digest != current.task_digest:
        return Verdict.TASK_CHANGED
    if identity.plan_digest != current.plan_digest:
        return Verdict.PLAN_CHANGED
    if record.status in (TaskStatus.CANCELLED, TaskStatus.SKIPPED):
        return Verdict.UNFINISHED
    match = matching_issue(record.issues, patterns)
    if match is None:
        return Verdict.REUSED
    return Verdict.FATAL if match[0].severity is Severity.FATAL else Verdict.MATCHED
