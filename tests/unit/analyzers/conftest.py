"""Runs an analyzer with its parameters on a result, as the runtime does."""

from collections.abc import Callable
from typing import Any

import pytest

from agentcompass.contracts import Analyzer, RunResult, Trajectory, TrajectoryStep
from agentcompass.plugins.registry import ComponentKind, Registry, load_registry
from agentcompass.plugins.testing import RecordingContext

Found = list[tuple[str, Any, dict[str, Any]]]


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


@pytest.fixture
def make(registry: Registry) -> Callable[..., Analyzer[Any]]:
    """``make("latency", slow_step_seconds=1)``."""

    def build(name: str, **params: Any) -> Analyzer[Any]:
        return registry.get_analyzer(name)(registry.validate_params(ComponentKind.ANALYZER, name, params))

    return build


@pytest.fixture
def findings(make: Callable[..., Analyzer[Any]]) -> Callable[..., Any]:
    """``await findings("latency", result, slow_step_seconds=1)``: label, value and details of each."""

    async def run(name: str, result: RunResult, **params: Any) -> Found:
        found = await make(name, **params).analyze(result, RecordingContext())
        return [(item.label, item.value, item.details) for item in found]

    return run


@pytest.fixture
def steps() -> Callable[..., RunResult]:
    """``steps({"message": "hi"}, …)``: a result whose agent took these steps."""

    def build(*fields: dict[str, Any], **result: Any) -> RunResult:
        made = [
            TrajectoryStep.model_validate({"step_id": number, "source": "agent", **step})
            for number, step in enumerate(fields, start=1)
        ]
        return RunResult(task_id="t", trajectory=Trajectory(steps=made), **result)

    return build
