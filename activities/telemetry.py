"""What a worker counts of its own work, beside what the Temporal SDK measures.

Names and labels are a promise to dashboards and alerts: ``docs/deploying.md`` lists them, and a
test compares the list, the dashboard and what a worker exposes. No label holds a task or a run, so the
number of series stays small.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta

from temporalio.common import MetricMeter

from ..contracts.activities import AttemptOutcome
from ..contracts.outcomes import outcome_word
from ..contracts.phases import Phase
from ..contracts.request import RunRequest
from ..contracts.result import TrajectoryStep

MICRO = 1_000_000


class WorkerMetrics:
    """Records into a meter of the SDK; the default one records nothing."""

    def __init__(self, meter: MetricMeter = MetricMeter.noop) -> None:
        self._attempts = meter.create_counter(
            "agentcompass_attempts", "Attempts that were saved, by outcome", "attempts"
        )
        self._phases = meter.create_histogram_timedelta(
            "agentcompass_phase_latency", "Duration of one try of a phase", "duration"
        )
        self._opened = meter.create_counter("agentcompass_environments_opened", "Environments opened")
        self._closed = meter.create_counter(
            "agentcompass_environments_closed", "Environments closed, by whether it worked"
        )
        self._existing = meter.create_gauge(
            "agentcompass_environments_open", "Environments that exist at a provider, seen from this worker"
        )
        self._abandoned = meter.create_gauge(
            "agentcompass_hooks_abandoned", "Blocking hooks of this worker that were cancelled and do not end"
        )
        self._calls = meter.create_counter("agentcompass_model_calls", "Answered model calls")
        self._tokens = meter.create_counter("agentcompass_model_tokens", "Tokens of models, by kind")
        self._cost = meter.create_counter(
            "agentcompass_model_cost_micro_usd", "Cost of model calls, as far as it is reported"
        )

    def attempt_saved(self, request: RunRequest, outcome: AttemptOutcome) -> None:
        """Count an attempt's end."""
        self._attempts.add(1, {**_labels(request), "outcome": outcome_word(outcome)})

    @contextlib.contextmanager
    def phase(self, phase: Phase) -> Iterator[None]:
        """Measure one try of a phase; an exception makes it a failed one."""
        began, outcome = time.monotonic(), "failed"
        try:
            yield
            outcome = "ok"
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            spent = timedelta(seconds=time.monotonic() - began)
            self._phases.record(spent, {"phase": phase.value, "outcome": outcome})

    def environment_opened(self, provider: str) -> None:
        """Count an environment that was opened, or taken up again."""
        self._opened.add(1, {"environment": provider})

    def environment_closed(self, provider: str, *, worked: bool) -> None:
        """Count a closing."""
        self._closed.add(1, {"environment": provider, "outcome": "ok" if worked else "failed"})

    def environments_existing(self, provider: str, host: str, count: int) -> None:
        """Show how many there are; ``host`` is empty for a provider that all workers share."""
        self._existing.set(count, {"environment": provider, "host": host})

    def hooks_abandoned(self, count: int) -> None:
        """Show how many there are now."""
        self._abandoned.set(count)

    def model_calls(self, request: RunRequest, steps: Sequence[TrajectoryStep]) -> None:
        """Count tokens and cost of an agent's steps; steps without usage count for nothing."""
        labels = _labels(request)
        for step in steps:
            usage = step.usage
            if usage is None:
                continue
            self._calls.add(1, labels)
            amounts = {
                "prompt": usage.prompt_tokens,
                "completion": usage.completion_tokens,
                "cached": usage.cached_tokens,
                "reasoning": usage.reasoning_tokens,
            }
            for kind, amount in amounts.items():
                if amount is not None and amount > 0:
                    self._tokens.add(amount, {**labels, "kind": kind})
            if step.cost_usd is not None and 0 < step.cost_usd < MICRO:  # an agent's report may hold anything
                self._cost.add(round(step.cost_usd * MICRO), labels)


def _labels(request: RunRequest) -> dict[str, str]:
    return {
        "benchmark": request.benchmark.id,
        "harness": request.harness.id,
        "model": request.model.id,
        "environment": request.environment.id,
    }
