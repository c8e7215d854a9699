"""The user whom a Harbor task names, in containers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harbor_tasks import make_task

from agentcompass.contracts import ExecutionPlan, NoParams, RunRequest
from agentcompass.plugins.benchmarks.harbor import Harbor, HarborParams
from agentcompass.plugins.recipes.harbor_daytona import HarborDaytona
from agentcompass.plugins.recipes.harbor_docker import HarborDocker


def request_of(environment: dict[str, Any]) -> RunRequest:
    return RunRequest.model_validate(
        {
            "benchmark": {"id": "harbor"},
            "harness": {"id": "oracle"},
            "environment": environment,
            "model": {"id": "none"},
        }
    )


async def test_the_agent_of_a_task_with_a_user_is_that_user_on_docker_only(tmp_path: Path) -> None:
    make_task(tmp_path / "anybody")
    make_task(tmp_path / "somebody", "[agent]\nuser = 1000\n")
    recipe = HarborDocker(NoParams())
    request = request_of({"id": "docker", "params": {"pids_limit": 100}})
    anybody, somebody = await Harbor(HarborParams(path=str(tmp_path))).load_tasks(request)

    def plan(environment: Any) -> ExecutionPlan:
        return ExecutionPlan(task_id="t", attempt=1, environment=environment)

    assert recipe.matches(request, somebody, plan(request.environment))
    assert not recipe.matches(request, anybody, plan(request.environment))
    other = request_of({"id": "host_process"})
    assert not recipe.matches(other, somebody, plan(other.environment))
    applied = recipe.apply(plan(request.environment), request, somebody)
    assert applied.environment.params == {"pids_limit": 100, "user": "1000"}


async def test_on_daytona_the_agent_is_that_user_too(tmp_path: Path) -> None:
    make_task(tmp_path / "somebody", "[agent]\nuser = 'agent'\n[environment]\ndocker_image = 'x:1'\n")
    recipe = HarborDaytona(NoParams())
    request = request_of({"id": "daytona"})
    [task] = await Harbor(HarborParams(path=str(tmp_path))).load_tasks(request)
    plan = ExecutionPlan(task_id="t", attempt=1, environment=request.environment)
    assert recipe.matches(request, task, plan)
    assert recipe.apply(plan, request, task).environment.params == {"user": "agent"}
