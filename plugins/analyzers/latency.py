"""Analyzer ``latency``: where the time of an attempt went."""

from __future__ import annotations

from pydantic import Field

from ...contracts.analyzer import AnalysisFinding, Analyzer
from ...contracts.base import Contract
from ...contracts.context import AttemptContext
from ...contracts.result import RunResult
from .steps import agent_steps, amount


class LatencyParams(Contract):
    """Parameters of the analyzer, in seconds; ``None`` switches a threshold off."""

    slow_attempt_seconds: float | None = Field(default=3600.0, gt=0)
    """Above this an attempt, all phases together, is slow."""
    slow_step_seconds: float | None = Field(default=300.0, gt=0)
    """Above this a model call is slow."""


class Latency(Analyzer[LatencyParams]):
    """``model_seconds``: time of all model calls. ``slow_step``, ``slow_attempt``: above a threshold."""

    id = "latency"
    description = "Seconds of the model calls, slow calls, and slow attempts."
    Params = LatencyParams
    family = "latency"

    async def analyze(self, result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
        del context
        return [*self._of_steps(result), *self._of_phases(result)]

    def _of_steps(self, result: RunResult) -> list[AnalysisFinding]:
        timed = [
            (seconds, step.step_id)
            for step in agent_steps(result)
            if (seconds := amount(step.latency_seconds)) is not None
        ]
        if not timed:
            return []
        slowest, slowest_step = max(timed, key=lambda item: item[0])
        findings = [
            AnalysisFinding(
                label="model_seconds",
                value=round(sum(seconds for seconds, _ in timed), 3),
                details={
                    "calls": len(timed),
                    "slowest_step": slowest_step,
                    "slowest_seconds": round(slowest, 3),
                },
            )
        ]
        threshold = self.params.slow_step_seconds
        slow = [item for item in timed if threshold is not None and item[0] > threshold]
        if slow:
            findings.append(
                AnalysisFinding(
                    label="slow_step",
                    value=round(slowest, 3),
                    details={"step": slowest_step, "slow_steps": len(slow), "threshold": threshold},
                )
            )
        return findings

    def _of_phases(self, result: RunResult) -> list[AnalysisFinding]:
        timings = result.meta.timings
        total, threshold = sum(timings.values()), self.params.slow_attempt_seconds
        if threshold is None or total <= threshold:
            return []
        phase = max(timings, key=lambda name: timings[name])
        details = {"slowest_phase": phase, "phase_seconds": round(timings[phase], 3), "threshold": threshold}
        return [AnalysisFinding(label="slow_attempt", value=round(total, 3), details=dict(details))]
