"""Analyzer ``latency``."""

import math
from typing import Any

from agentcompass.contracts import RunResult
from agentcompass.contracts.result import ResultMeta


async def test_the_model_calls_are_added_up(findings: Any, steps: Any) -> None:
    result = steps(
        {"latency_seconds": 1.25},
        {"latency_seconds": 4.5},
        {"source": "user", "latency_seconds": 99.0},
        {"latency_seconds": None},
    )
    assert await findings("latency", result) == [
        ("model_seconds", 5.75, {"calls": 2, "slowest_step": 2, "slowest_seconds": 4.5})
    ]


async def test_a_slow_call_is_reported_above_the_threshold(findings: Any, steps: Any) -> None:
    result = steps({"latency_seconds": 2.0}, {"latency_seconds": 3.0}, {"latency_seconds": 1.0})
    found = await findings("latency", result, slow_step_seconds=1.5)
    assert found[1] == ("slow_step", 3.0, {"step": 2, "slow_steps": 2, "threshold": 1.5})
    assert len(await findings("latency", result, slow_step_seconds=3)) == 1
    assert len(await findings("latency", result, slow_step_seconds=None)) == 1


async def test_a_slow_attempt_names_its_slowest_phase(findings: Any) -> None:
    timings = {"execute_task": 3000.5, "evaluate": 700.25}
    result = RunResult(task_id="t", meta=ResultMeta(timings=timings))
    assert await findings("latency", result) == [
        (
            "slow_attempt",
            3700.75,
            {"slowest_phase": "execute_task", "phase_seconds": 3000.5, "threshold": 3600.0},
        )
    ]
    assert await findings("latency", result, slow_attempt_seconds=4000) == []


async def test_what_is_no_time_is_left_out(findings: Any, steps: Any) -> None:
    assert await findings("latency", steps({"latency_seconds": math.inf}, {"latency_seconds": -1})) == []
