"""What a worker counts, read back from the SDK's own buffer of metrics."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.runtime import MetricBuffer, Runtime, TelemetryConfig

from agentcompass.activities.environment_census import keep_counting
from agentcompass.activities.telemetry import WorkerMetrics
from agentcompass.contracts.activities import AttemptOutcome
from agentcompass.contracts.outcomes import OUTCOME_WORDS, outcome_word
from agentcompass.contracts.phases import Phase
from agentcompass.contracts.request import BenchmarkSpec, EnvironmentSpec, HarnessSpec, ModelSpec, RunRequest
from agentcompass.contracts.result import TaskStatus, TrajectoryStep, Usage

BUFFER = MetricBuffer(10_000)
RUNTIME = Runtime(telemetry=TelemetryConfig(metrics=BUFFER))
REQUEST = RunRequest(
    benchmark=BenchmarkSpec(id="b"),
    harness=HarnessSpec(id="h"),
    environment=EnvironmentSpec(id="e"),
    model=ModelSpec(id="m"),
)


@pytest.fixture
def metrics() -> WorkerMetrics:
    BUFFER.retrieve_updates()
    return WorkerMetrics(RUNTIME.metric_meter)


def recorded() -> list[tuple[str, float, dict[str, Any]]]:
    """Name, value and our own labels of everything that was recorded since."""
    updates = BUFFER.retrieve_updates()
    return [
        (item.metric.name, item.value, {k: v for k, v in item.attributes.items() if k != "service_name"})
        for item in updates
        if item.metric.name.startswith("agentcompass_")
    ]


def step(number: int, cost: float | None = None, **usage: int) -> TrajectoryStep:
    return TrajectoryStep(
        step_id=number, source="agent", cost_usd=cost, usage=Usage(**usage) if usage else None
    )


def test_tokens_and_cost_are_counted_by_kind(metrics: WorkerMetrics) -> None:
    labels = {"benchmark": "b", "harness": "h", "model": "m", "environment": "e"}
    metrics.model_calls(REQUEST, [step(1, 0.25, prompt_tokens=10, completion_tokens=3), step(2)])
    assert recorded() == [
        ("agentcompass_model_calls", 1, labels),
        ("agentcompass_model_tokens", 10, {**labels, "kind": "prompt"}),
        ("agentcompass_model_tokens", 3, {**labels, "kind": "completion"}),
        ("agentcompass_model_cost_micro_usd", 250_000, labels),
    ]


@pytest.mark.parametrize("cost", [-1.0, float("nan"), float("inf"), 1e30])
def test_cost_that_cannot_be_is_not_counted(metrics: WorkerMetrics, cost: float) -> None:
    metrics.model_calls(REQUEST, [step(1, cost, prompt_tokens=0)])
    assert [name for name, _, _ in recorded()] == ["agentcompass_model_calls"]


@pytest.mark.parametrize(
    ("error", "outcome"), [(None, "ok"), (ValueError, "failed"), (asyncio.CancelledError, "cancelled")]
)
def test_phase_is_measured_whatever_becomes_of_it(
    metrics: WorkerMetrics, error: type[BaseException] | None, outcome: str
) -> None:
    with contextlib.suppress(ValueError, asyncio.CancelledError), metrics.phase(Phase.EVALUATE):
        if error is not None:
            raise error
    [(name, _, labels)] = recorded()
    assert (name, labels) == ("agentcompass_phase_latency", {"phase": "evaluate", "outcome": outcome})


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"fatal": True, "success": True}, "fatal"),
        ({"success": True}, "passed"),
        ({"success": False, "error": True}, "failed"),
        ({"error": True}, "error"),
        ({"status": TaskStatus.COMPLETED}, "scored"),
        ({"status": TaskStatus.SKIPPED}, "not_evaluated"),
    ],
)
def test_attempt_counts_under_one_word(metrics: WorkerMetrics, fields: dict[str, Any], word: str) -> None:
    outcome = AttemptOutcome(**{"task_id": "t", "attempt": 1, "status": TaskStatus.RUN_ERROR, **fields})
    assert outcome_word(outcome) == word and word in OUTCOME_WORDS
    metrics.attempt_saved(REQUEST, outcome)
    [(name, value, labels)] = recorded()
    assert (name, value, labels["outcome"]) == ("agentcompass_attempts", 1, word)


class Provider:
    """As far as the census is concerned."""

    def __init__(self, answers: list[int | Exception], host_bound: bool) -> None:
        self.capabilities = SimpleNamespace(host_bound=host_bound)
        self._answers = answers
        self.asked = asyncio.Event()

    async def list_environments(self) -> list[object]:
        answer = self._answers.pop(0)
        if not self._answers:
            self.asked.set()
        if isinstance(answer, Exception):
            raise answer
        return [object()] * answer


async def test_environments_are_counted_at_the_provider_and_failures_do_not_end_the_counting(
    metrics: WorkerMetrics,
) -> None:
    local, shared = Provider([OSError("away"), 2], True), Provider([5], False)
    unable = Provider([NotImplementedError("no list")], False)
    services: Any = SimpleNamespace(
        metrics=metrics,
        settings=SimpleNamespace(host_queue="host/one"),
        environments_used={"local": local, "unable": unable, "shared": shared},
    )
    counting = asyncio.create_task(keep_counting(services, seconds=0.01))
    await asyncio.wait_for(asyncio.gather(local.asked.wait(), shared.asked.wait()), 60)
    await asyncio.sleep(0)
    counting.cancel()
    found = recorded()
    assert "agentcompass_hooks_abandoned" in {name for name, _, _ in found}
    seen = [(value, labels) for _, value, labels in found]
    assert (5, {"environment": "shared", "host": ""}) in seen
    assert (2, {"environment": "local", "host": "host/one"}) in seen
