"""Analyzer ``truncation``: answers that a token limit cut off."""

from __future__ import annotations

from pydantic import Field

from ...contracts.analyzer import AnalysisFinding, Analyzer
from ...contracts.base import Contract
from ...contracts.context import AttemptContext
from ...contracts.result import RunResult, TrajectoryStep
from .steps import agent_steps, step_numbers


class TruncationParams(Contract):
    """Parameters of the analyzer."""

    stop_reasons: list[str] = Field(
        default=["length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"]
    )
    """Stop reasons that mean a token limit, in any case; the built-in clients say ``length``."""


class Truncation(Analyzer[TruncationParams]):
    """``truncated_turns`` counts cut turns; ``truncated_answer`` says that the last turn is one."""

    id = "truncation"
    description = "Model turns that a token limit cut off."
    Params = TruncationParams
    family = "truncation"
    requires_trajectory = True

    async def analyze(self, result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
        del context
        steps = agent_steps(result)
        cut = [step for step in steps if self._is_cut(step)]
        if not cut:
            return []
        findings = [
            AnalysisFinding(label="truncated_turns", value=len(cut), details={"steps": step_numbers(cut)})
        ]
        if cut[-1] is steps[-1]:
            last = steps[-1]
            tokens = last.usage.completion_tokens if last.usage else None
            details = {"step": last.step_id, "completion_tokens": tokens}
            findings.append(AnalysisFinding(label="truncated_answer", details=dict(details)))
        return findings

    def _is_cut(self, step: TrajectoryStep) -> bool:
        limits = {reason.lower() for reason in self.params.stop_reasons}
        return (step.stop_reason or "").lower() in limits
