"""Analyzer ``usage``: tokens and cost of an attempt."""

from __future__ import annotations

from pydantic import Field

from ...contracts.analyzer import AnalysisFinding, Analyzer
from ...contracts.base import Contract
from ...contracts.context import AttemptContext
from ...contracts.result import RunResult, TrajectoryStep
from .steps import agent_steps, amount

_COUNTED = ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens")


class UsageParams(Contract):
    """Parameters of the analyzer; ``None`` switches a threshold off."""

    many_tokens: int | None = Field(default=None, gt=0)
    """Above this (prompt and completion together) an attempt gets the label ``many_tokens``."""
    high_cost_usd: float | None = Field(default=None, gt=0)
    """Above this an attempt gets the label ``high_cost``."""


class TokenUsage(Analyzer[UsageParams]):
    """``tokens`` (prompt and completion) and ``cost_usd``, each beside the calls that report it."""

    id = "usage"
    description = "Tokens and cost of an attempt, as the endpoint reported them."
    Params = UsageParams
    family = "usage"
    requires_trajectory = True

    async def analyze(self, result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
        del context
        steps = agent_steps(result)
        return [*self._tokens(steps), *self._cost(steps)]

    def _tokens(self, steps: list[TrajectoryStep]) -> list[AnalysisFinding]:
        totals = {name: 0 for name in _COUNTED}
        reporting = 0
        for step in steps:
            counts = {name: _tokens_of(step, name) for name in _COUNTED}
            reporting += counts["prompt_tokens"] is not None or counts["completion_tokens"] is not None
            for name, count in counts.items():
                totals[name] += count or 0
        if not reporting:
            return []
        tokens = totals["prompt_tokens"] + totals["completion_tokens"]
        details = {**totals, "calls": len(steps), "calls_that_report": reporting}
        findings = [AnalysisFinding(label="tokens", value=tokens, details=dict(details))]
        limit = self.params.many_tokens
        if limit is not None and tokens > limit:
            findings.append(AnalysisFinding(label="many_tokens", value=tokens, details={"threshold": limit}))
        return findings

    def _cost(self, steps: list[TrajectoryStep]) -> list[AnalysisFinding]:
        costs = [cost for step in steps if (cost := amount(step.cost_usd)) is not None]
        if not costs:
            return []
        total = round(sum(costs), 6)
        details = {"calls": len(steps), "calls_that_report": len(costs)}
        findings = [AnalysisFinding(label="cost_usd", value=total, details=dict(details))]
        limit = self.params.high_cost_usd
        if limit is not None and total > limit:
            findings.append(AnalysisFinding(label="high_cost", value=total, details={"threshold": limit}))
        return findings


def _tokens_of(step: TrajectoryStep, name: str) -> int | None:
    value = getattr(step.usage, name) if step.usage else None
    return value if isinstance(value, int) and value >= 0 else None
