"""Analyzer ``exceptions``: what went wrong, by issue code."""

from __future__ import annotations

from ...contracts.analyzer import AnalysisFinding, Analyzer
from ...contracts.base import Contract
from ...contracts.context import AttemptContext
from ...contracts.issues import Issue, Severity
from ...contracts.result import RunResult
from .steps import excerpt


class ExceptionsParams(Contract):
    """Parameters of the analyzer."""

    include_warnings: bool = False
    """Report WARNING issues, too."""


class Exceptions(Analyzer[ExceptionsParams]):
    """One finding for each code and severity among the attempt's issues; the code is the label."""

    id = "exceptions"
    description = "Attempts with FATAL or ERROR issues, by issue code."
    Params = ExceptionsParams
    family = "exceptions"

    async def analyze(self, result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
        del context
        groups: dict[tuple[str, Severity], list[Issue]] = {}
        for issue in result.issues:
            if issue.severity is not Severity.WARNING or self.params.include_warnings:
                groups.setdefault((issue.code, issue.severity), []).append(issue)
        return [
            AnalysisFinding(
                label=code,
                value=severity.value,
                details={
                    "count": len(issues),
                    "phase": issues[0].phase.value,
                    "message": excerpt(issues[0].message),
                },
            )
            for (code, severity), issues in groups.items()
        ]
