"""Analyzer ``exceptions``."""

from typing import Any

from agentcompass.contracts import Issue, IssuePhase, RunResult, Severity


def issue(severity: Severity, code: str, message: str = "m", phase: IssuePhase = IssuePhase.RUN) -> Issue:
    return Issue(severity=severity, phase=phase, code=code, message=message)


async def test_every_code_is_a_label_with_its_severity_and_count(findings: Any) -> None:
    result = RunResult(
        task_id="t",
        issues=[
            issue(Severity.ERROR, "model_timeout", "after 60 s"),
            issue(Severity.FATAL, "environment_lost", phase=IssuePhase.COLLECT),
            issue(Severity.ERROR, "model_timeout", "after 61 s"),
        ],
    )
    assert await findings("exceptions", result) == [
        ("model_timeout", "error", {"count": 2, "phase": "run", "message": "after 60 s"}),
        ("environment_lost", "fatal", {"count": 1, "phase": "collect", "message": "m"}),
    ]


async def test_warnings_are_reported_when_asked_for(findings: Any) -> None:
    result = RunResult(task_id="t", issues=[issue(Severity.WARNING, "cleanup_failed")])
    assert await findings("exceptions", result) == []
    [(label, value, _)] = await findings("exceptions", result, include_warnings=True)
    assert (label, value) == ("cleanup_failed", "warning")


async def test_long_messages_are_cut(findings: Any) -> None:
    [(_, _, details)] = await findings(
        "exceptions", RunResult(task_id="t", issues=[issue(Severity.ERROR, "c", "x" * 3000)])
    )
    assert details["message"] == "x" * 199 + "…"
