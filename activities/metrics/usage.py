"""Tokens, cost and time of a run, added up record by record."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from ...contracts.metrics import Tally, UsageTotals
from ...contracts.records import TaskRecord
from ...contracts.result import TrajectoryStep


def total_usage(records: Iterable[TaskRecord]) -> UsageTotals:
    """The totals over ``records``, which may come from a generator: one is held at a time.

    Discarded executions (retries) are not in a task record, and so not in the totals.
    """
    meter = UsageMeter()
    for record in records:
        meter.add(record)
    return meter.totals


class UsageMeter:
    """Adds up task records; ``totals`` is the state so far."""

    def __init__(self) -> None:
        self.totals = UsageTotals()

    def add(self, record: TaskRecord) -> None:
        """Count every attempt of ``record``."""
        for attempt in record.attempts.values():
            self.totals.attempts += 1
            for step in attempt.trajectory.steps if attempt.trajectory else ():
                self._add_step(step)

    def _add_step(self, step: TrajectoryStep) -> None:
        totals = self.totals
        totals.steps += 1
        if step.source != "agent" or not _is_model_call(step):
            return
        totals.calls += 1
        if step.usage is not None:
            _add(totals.prompt_tokens, step.usage.prompt_tokens)
            _add(totals.completion_tokens, step.usage.completion_tokens)
            _add(totals.cached_tokens, step.usage.cached_tokens)
            _add(totals.reasoning_tokens, step.usage.reasoning_tokens)
        _add(totals.cost_usd, step.cost_usd)
        if _add(totals.latency_seconds, step.latency_seconds):
            totals.max_latency_seconds = max(totals.max_latency_seconds, step.latency_seconds or 0.0)


def _is_model_call(step: TrajectoryStep) -> bool:
    """An agent that calls no model has steps, too: the answer of ``oracle``, a command and its time."""
    facts = (step.model, step.usage, step.cost_usd, step.stop_reason)
    return any(fact is not None for fact in facts)


def _add(tally: Tally, value: int | float | None) -> bool:
    """Add an amount; what is none (an agent's own report may hold anything) is left out."""
    if value is None or not 0 <= value <= sys.float_info.max:
        return False
    tally.total += value
    tally.calls += 1
    return True
