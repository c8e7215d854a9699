"""Analyzer ``tool_repetition``: agents that go round in circles."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from ...contracts.analyzer import AnalysisFinding, Analyzer
from ...contracts.base import Contract
from ...contracts.context import AttemptContext
from ...contracts.result import RunResult
from .steps import all_steps, canonical, excerpt

MAX_FINDINGS = 10
"""Calls that are reported for one attempt, the most repeated first."""


class ToolRepetitionParams(Contract):
    """Parameters of the analyzer."""

    in_a_row: int = Field(default=3, ge=2)
    """Report a call that is made this often without another one between."""
    in_total: int = Field(default=10, ge=1)
    """Report a call that is made more often than this."""


@dataclass
class _Tally:
    name: str
    arguments: str
    total: int = 0
    row: int = 0
    longest_row: int = 0
    first_step: int = 0


class ToolRepetition(Analyzer[ToolRepetitionParams]):
    """``repeated_in_a_row`` and ``repeated_calls``: the same tool with the same arguments."""

    id = "tool_repetition"
    description = "The same tool call in a row, or very often."
    Params = ToolRepetitionParams
    family = "tool_repetition"
    requires_trajectory = True

    async def analyze(self, result: RunResult, context: AttemptContext) -> list[AnalysisFinding]:
        del context
        tallies = _count(result)
        in_a_row = [item for item in tallies if item.longest_row >= self.params.in_a_row]
        in_total = [item for item in tallies if item.total > self.params.in_total]
        findings = [_finding("repeated_in_a_row", item.longest_row, item) for item in in_a_row]
        findings += [_finding("repeated_calls", item.total, item) for item in in_total]
        return sorted(findings, key=lambda finding: -_number(finding))[:MAX_FINDINGS]


def _count(result: RunResult) -> list[_Tally]:
    tallies: dict[tuple[str, str], _Tally] = {}
    before: _Tally | None = None
    for step in all_steps(result):
        for call in step.tool_calls:
            key = (call.name, canonical(call.arguments))
            tally = tallies.setdefault(key, _Tally(*key, first_step=step.step_id))
            tally.row = tally.row + 1 if tally is before else 1
            tally.longest_row = max(tally.longest_row, tally.row)
            tally.total += 1
            before = tally
    return list(tallies.values())


def _finding(label: str, count: int, tally: _Tally) -> AnalysisFinding:
    return AnalysisFinding(
        label=label,
        value=count,
        details={
            "tool": excerpt(tally.name),
            "arguments": excerpt(tally.arguments),
            "first_step": tally.first_step,
        },
    )


def _number(finding: AnalysisFinding) -> int:
    return finding.value if isinstance(finding.value, int) else 0
