"""Which parts of a plan make a result another one."""

from __future__ import annotations

from typing import Any

import pytest
from planning import planned, request_of, sets, task_of

from agentcompass.activities.identity import plan_digest
from agentcompass.contracts.plan import BenchmarkPlan, HarnessPlan, RetryPlan
from agentcompass.contracts.request import EnvironmentSetup

SAME: dict[str, dict[str, Any]] = {
    "retries": {"retry": RetryPlan(max_retries=5, retry_pattern_list=["x"])},
    "run budget": {"budgets__run_timeout_seconds": 5.0},
    "base of the run budget": {"benchmark_plan": BenchmarkPlan(run_timeout_seconds=5)},
    "evaluation budget": {"budgets__evaluation_timeout_seconds": 5.0},
    "time to build": {"environment__setup": EnvironmentSetup(build_timeout_seconds=9)},
    "kept environment": {"keep_environment": True},
    "variables": {"environment__env_variables": {"A": "1"}},
    "saved artifacts": {"save_artifacts": True},
}
OTHER: dict[str, dict[str, Any]] = {
    "image": {"environment__setup": EnvironmentSetup(image="other")},
    "work directory": {"environment__setup": EnvironmentSetup(workdir="/other")},
    "mode": {"evaluation_environment_mode": "reuse"},
    "benchmark's settings": {"benchmark_plan": BenchmarkPlan(settings={"a": 1})},
    "harness's settings": {"harness_plan": HarnessPlan(settings={"a": 1})},
}


@pytest.mark.parametrize("changes", SAME.values(), ids=SAME)
def test_how_long_how_often_and_where_to_is_not_identity(changes: dict[str, Any]) -> None:
    assert plan_digest(planned(None, None, sets(**changes))) == plan_digest(planned())


@pytest.mark.parametrize("changes", OTHER.values(), ids=OTHER)
def test_what_is_asked_of_the_agent_is_identity(changes: dict[str, Any]) -> None:
    assert plan_digest(planned(None, None, sets(**changes))) != plan_digest(planned())


def test_a_network_policy_and_a_resource_are_identity() -> None:
    digests = {
        plan_digest(planned()),
        plan_digest(planned(None, task_of(run_network_policy={"network_mode": "no-network"}))),
        plan_digest(planned(request_of({"resources": {"cpu": 2}}))),
    }
    assert len(digests) == 3


def test_the_attempt_and_the_endpoint_are_not_in_the_digest_of_the_plan() -> None:
    request = request_of()
    moved = request.model_copy(
        update={"model": request.model.model_copy(update={"base_url": "http://localhost:1"})}
    )
    assert plan_digest(planned(moved)) == plan_digest(planned(request))
