"""Analyzer ``empty_output``: attempts that answered nothing, and turns that said nothing."""

from __future__ import annotations

from ...contracts.analyzer import AnalysisFinding, Analyzer
from ...contracts.base import Contract
from ...contracts.context import AttemptContext
from ...contracts.result import RunResult
from .steps import agent_steps, is_blank, step_numbers

_OWN_ARTIFACTS = frozenset({"execution_diagnostics"})
"""What the runtime puts beside the artifacts of an attempt; no output of the agent."""


class EmptyOutputParams(Contract):
    """Parameters of the analyzer."""

    artifacts_are_output: bool = True
    """An attempt without an answer that delivered artifacts is not empty."""


class EmptyOutput(Analyzer[EmptyOutputParams]):
    """``empty_answer``: no final answer. ``empty_turns``: agent steps without text and tool call."""

    id = "empty_output"
    description = "Attempts without an answer, and model turns without text or tool call."
    Params = EmptyOutputParams
    family = "empty_output"

    async def analyze(self, result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
        del context
        steps = agent_steps(result)
        findings: list[AnalysisFinding] = []
        delivered = self.params.artifacts_are_output and bool(result.artifacts.keys() - _OWN_ARTIFACTS)
        if is_blank(result.final_answer) and not delivered:
            details = {"agent_steps": len(steps), "status": result.status.value}
            findings.append(AnalysisFinding(label="empty_answer", details=dict(details)))
        empty = [step for step in steps if is_blank(step.message) and not step.tool_calls]
        if empty:
            findings.append(
                AnalysisFinding(label="empty_turns", value=len(empty), details={"steps": step_numbers(empty)})
            )
        return findings
