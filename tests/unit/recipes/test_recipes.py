"""What recipes make of plans: each benchmark in each environment."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from planning import planned_for

from agentcompass.contracts import EnvironmentSpec, ExecutionPlan, TaskSpec

JUDGE = {"id": "j", "base_url": "http://127.0.0.1:9/v1"}
PARAMS: dict[str, dict[str, Any]] = {
    "swebench_verified": {"path": "x.jsonl"},
    "pinchbench": {"path": "x"},
    "judged_qa": {"path": "x.jsonl", "judge": JUDGE},
    "bfcl": {},
    "harbor": {"path": "x"},
}
IMAGE = "swebench/sweb.eval.x86_64.django_1776_django-11039:latest"
FACTS = {"source": {"path": "t"}, "digest": ""}


def planned(benchmark: str, task: TaskSpec, environment: str, **settings: Any) -> ExecutionPlan:
    return planned_for(benchmark, PARAMS[benchmark], task, {"id": environment, **settings})


def swe_bench(**changes: Any) -> TaskSpec:
    return TaskSpec.model_validate({"task_id": "django__django-11039", "image": IMAGE, **changes})


def harbor(user: str | None, **setup: Any) -> TaskSpec:
    facts = {**FACTS, "agent_user": user, "setup": {"image": "x:1", **setup}}
    return TaskSpec.model_validate({"task_id": "t", "metadata": facts})


def test_swe_bench_on_docker_runs_in_its_image_as_the_official_evaluation_does() -> None:
    plan = planned("swebench_verified", swe_bench(), "docker")
    found = plan.environment
    assert plan.applied_recipes == ["swebench_verified_docker"]
    assert (found.setup.image, found.setup.workdir) == (IMAGE, "/testbed")
    assert found.params == {"platform": "linux/amd64", "user": "root"}
    assert found.resources.model_dump(exclude_none=True) == {}
    assert found.run_env_variables["BASH_ENV"] == "/root/.bashrc"


@pytest.mark.parametrize(
    ("environment", "params", "resources"),
    [
        (
            "daytona",
            {"user": "root", "open_timeout_seconds": 3600.0},
            {"cpu": 2, "memory_mb": 8192, "storage_mb": 10240},
        ),
        ("modal", {"open_timeout_seconds": 3600.0}, {"cpu": 2, "memory_mb": 8192}),
    ],
)
def test_swe_bench_in_remote_sandboxes_has_the_image_and_room_for_it(
    environment: str, params: dict[str, Any], resources: dict[str, Any]
) -> None:
    found = planned("swebench_verified", swe_bench(), environment).environment
    assert (found.setup.image, found.setup.workdir) == (IMAGE, "/testbed")
    assert found.params == params
    assert found.resources.model_dump(exclude_none=True) == resources


def test_its_verifier_gets_the_same_sandbox_but_not_the_agents_variables() -> None:
    plan = planned("swebench_verified", swe_bench(), "daytona")
    assert plan.evaluation_environment is not None
    assert plan.evaluation_environment.setup == plan.environment.setup
    assert plan.evaluation_environment.params == plan.environment.params
    assert plan.evaluation_environment.evaluation_env_variables == {}


def test_what_the_user_says_goes_over_a_recipe() -> None:
    found = planned(
        "swebench_verified",
        swe_bench(),
        "daytona",
        params={"user": "agent"},
        resources={"memory_mb": 4096},
        run_env_variables={"PAGER": "less"},
    ).environment
    assert found.params["user"] == "agent"
    assert (found.resources.memory_mb, found.resources.cpu) == (4096, 2)
    assert (found.run_env_variables["PAGER"], found.run_env_variables["MANPAGER"]) == ("less", "cat")


@pytest.mark.parametrize("environment", ["docker", "daytona", "modal"])
def test_swe_bench_in_somebodys_own_image_is_left_alone(environment: str) -> None:
    plan = planned("swebench_verified", swe_bench(), environment, setup={"image": "mine:1"})
    assert (plan.applied_recipes, plan.environment.setup.image) == ([], "mine:1")


@pytest.mark.parametrize("environment", ["docker", "daytona", "modal"])
@pytest.mark.parametrize("benchmark", ["pinchbench", "judged_qa"])
def test_tasks_that_need_python_get_an_image_with_it(benchmark: str, environment: str) -> None:
    plan = planned(benchmark, TaskSpec(task_id="t"), environment)
    assert plan.applied_recipes == [f"{benchmark}_{environment}"]
    assert plan.environment.setup.image == "python:3.12-slim"


@pytest.mark.parametrize(
    ("environment", "settings"),
    [
        ("docker", {"params": {"image": "mine:1"}}),
        ("docker", {"setup": {"build_context": "/somewhere"}}),
        ("daytona", {"params": {"snapshot": "mine"}}),
        ("modal", {"setup": {"image": "mine:1"}}),
    ],
)
def test_an_image_that_is_named_anywhere_stays(environment: str, settings: dict[str, Any]) -> None:
    plan = planned("pinchbench", TaskSpec(task_id="t"), environment, **settings)
    assert plan.applied_recipes == []
    assert plan.environment == EnvironmentSpec.model_validate({"id": environment, **settings})


@pytest.mark.parametrize("environment", ["docker", "daytona", "modal"])
def test_the_agent_of_a_harbor_task_is_its_user(environment: str) -> None:
    plan = planned("harbor", harbor("agent"), environment)
    assert plan.applied_recipes == [f"harbor_{environment}"]
    assert plan.environment.params == {"user": "agent"}
    assert planned("harbor", harbor(None), environment).applied_recipes == []


def test_a_sandbox_at_daytona_gets_the_time_that_its_task_allows_for() -> None:
    plan = planned("harbor", harbor(None, build_timeout_seconds=1800.0), "daytona")
    assert plan.environment.params == {"open_timeout_seconds": 1800.0}


@pytest.mark.parametrize("benchmark", ["pinchbench", "judged_qa", "bfcl", "swebench_verified"])
def test_nothing_is_added_where_processes_run_on_the_host(benchmark: str) -> None:
    plan = planned(benchmark, TaskSpec(task_id="t"), "host_process")
    assert (plan.applied_recipes, plan.environment) == ([], EnvironmentSpec(id="host_process"))


def test_loading_all_recipes_loads_neither_benchmarks_nor_docker() -> None:
    """Every worker loads them before its first attempt."""
    program = (
        "import sys; from agentcompass.plugins.registry import ComponentKind, load_registry; registry = load_registry(); "
        "[registry.get_recipe(name) for name in registry.ids(ComponentKind.RECIPE)]; "
        "print([name for name in sys.modules if 'plugins.benchmarks.harbor' in name or 'environments.docker' in name])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
