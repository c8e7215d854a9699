"""Analyzers: optional explanations of scored attempts that never change a score."""

from __future__ import annotations

import abc
from typing import ClassVar, TypeVar

from pydantic import BaseModel, Field, JsonValue

from .base import Contract
from .component import Component
from .context import AttemptContext
from .result import RunResult

ParamsT = TypeVar("ParamsT", bound=BaseModel)


class AnalysisFinding(Contract):
    """What an analyzer found: a label for counting, a value, and details for people."""

    label: str = Field(min_length=1, max_length=200)
    value: JsonValue = None
    """Numbers are summed up per label in ``analysis_summary.json``."""
    details: dict[str, JsonValue] = Field(default_factory=dict)


class AnalyzerResult(Contract):
    """What became of one analyzer on one attempt: its findings, or the reason why it has none."""

    findings: list[AnalysisFinding] = Field(default_factory=list)
    error: str | None = None
    """One line, secrets masked; ``None`` when the analyzer succeeded."""


class Analyzer(Component[ParamsT]):
    """Looks at one scored attempt. Of a ``family`` only the member with the highest priority runs.

    Without a ``family`` an analyzer is one of its own. ``analyze`` must not change the result; what
    it returns is stored under the analyzer's id in the attempt's ``analysis_result``.
    """

    family: ClassVar[str] = ""
    priority: ClassVar[int] = 0
    requires_trajectory: ClassVar[bool] = False
    """True when an attempt without steps says nothing to it; such an attempt is left out."""

    def matches(self, benchmark_id: str) -> bool:
        """True when it applies to results of that benchmark."""
        del benchmark_id
        return True

    @abc.abstractmethod
    async def analyze(self, result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
        """Findings for one attempt; an empty list when there is nothing to say."""
