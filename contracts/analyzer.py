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

    label: str
    value: JsonValue = None
    details: dict[str, JsonValue] = Field(default_factory=dict)


class Analyzer(Component[ParamsT]):
    """Looks at one scored attempt. Of a ``family`` only the member with the highest priority runs."""

    family: ClassVar[str] = ""
    priority: ClassVar[int] = 0
    requires_trajectory: ClassVar[bool] = False

    def matches(self, benchmark_id: str) -> bool:
        """True when it applies to results of that benchmark."""
        del benchmark_id
        return True

    @abc.abstractmethod
    async def analyze(self, result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
        """Findings for one attempt; an empty list when there is nothing to say."""
