"""Who decides a setting: the user, a recipe, the task, the benchmark or the default, in this order."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import pytest
from planning import FixedNetwork, PublicOnly, planned, recipe, request_of, sets, task_of

from agentcompass.contracts.artifacts import ArtifactCommand, ArtifactLimits, ArtifactSpec
from agentcompass.contracts.errors import StageFailure
from agentcompass.contracts.issues import IssuePhase, Severity
from agentcompass.contracts.network import NetworkPolicy
from agentcompass.contracts.plan import BenchmarkPlan, Budgets, HarnessPlan, RetryPlan
from agentcompass.contracts.request import EnvironmentSetup, EvaluationMode, ResourceRequirements

OFF = {"network_mode": "no-network"}
HOSTS = {"network_mode": "allowlist", "allowed_hosts": ["example.org"]}
NO_NETWORK, ALLOWED = NetworkPolicy.model_validate(OFF), NetworkPolicy.model_validate(HOSTS)
PUBLIC = NetworkPolicy()


@dataclass(frozen=True)
class Setting:
    """One setting from four sources: its place in the plan, and what each source says."""

    place: str
    default: Any
    user: dict[str, Any]
    """Keyword arguments of ``request_of``."""
    users: Any
    task: dict[str, Any] | None = None
    tasks: Any = None
    recipe: dict[str, Any] | None = None
    recipes: Any = None


def environment(**settings: Any) -> dict[str, Any]:
    return {"environment": settings}


def execution(**settings: Any) -> dict[str, Any]:
    return {"execution": settings, "explicit": [f"execution.{name}" for name in settings]}


FILE, OTHER = ArtifactSpec(source="/app/out"), ArtifactSpec(source="/app/other")
SETTINGS = [
    Setting("environment.id", "sandbox", environment(), "sandbox", recipe={"environment__id": "x"}, recipes="sandbox"),
    Setting("environment.params", {}, environment(params={"a": 1}), {"a": 1}, recipe={"environment__params": {"a": 2}}, recipes={"a": 2}),
    Setting("environment.setup.image", None, environment(setup={"image": "u"}), "u", {"image": "t"}, "t", {"environment__setup": EnvironmentSetup(image="r")}, "r"),
    Setting("environment.setup.workdir", None, environment(setup={"workdir": "/u"}), "/u", recipe={"environment__setup": EnvironmentSetup(workdir="/r")}, recipes="/r"),
    Setting("environment.setup.build_timeout_seconds", None, environment(setup={"build_timeout_seconds": 1}), 1.0, recipe={"environment__setup": EnvironmentSetup(build_timeout_seconds=3)}, recipes=3.0),
    Setting("environment.resources.cpu", None, environment(resources={"cpu": 1}), 1.0, {"resources": {"cpu": 2}}, 2.0, {"environment__resources": ResourceRequirements(cpu=3)}, 3.0),
    Setting("environment.resources.memory_mb", None, environment(resources={"memory_mb": 1}), 1, {"resources": {"memory_mb": 2}}, 2, {"environment__resources": ResourceRequirements(memory_mb=3)}, 3),
    Setting("environment.resources.storage_mb", None, environment(resources={"storage_mb": 1}), 1, {"resources": {"storage_mb": 2}}, 2, {"environment__resources": ResourceRequirements(storage_mb=3)}, 3),
    Setting("environment.resources.gpu", None, environment(resources={"gpu": 0}), 0, {"resources": {"gpu": 2}}, 2, {"environment__resources": ResourceRequirements(gpu=3)}, 3),
    Setting("environment.network_policy", None, environment(network_policy="public"), PUBLIC, {"network_policy": OFF}, NO_NETWORK, {"environment__network_policy": ALLOWED}, ALLOWED),
    Setting("run_network_policy", PUBLIC, environment(run_network_policy="public"), PUBLIC, {"run_network_policy": OFF}, NO_NETWORK, {"run_network_policy": ALLOWED}, ALLOWED),
    Setting("evaluation_network_policy", PUBLIC, environment(verifier_network_policy="public"), PUBLIC, {"evaluation_network_policy": OFF}, NO_NETWORK, {"evaluation_network_policy": ALLOWED}, ALLOWED),
    Setting("evaluation_environment_mode", EvaluationMode.NONE, environment(evaluation_environment_mode="none"), EvaluationMode.NONE, {"evaluation_environment_mode": "reuse"}, EvaluationMode.REUSE, {"evaluation_environment_mode": EvaluationMode.FRESH}, EvaluationMode.FRESH),
    *(
        Setting(f"environment.{name}", {}, environment(**{name: {"V": "u"}}), {"V": "u"}, {name: {"V": "t"}}, {"V": "t"}, {f"environment__{name}": {"V": "r"}}, {"V": "r"})
        for name in ("env_variables", "run_env_variables", "evaluation_env_variables")
    ),
    Setting("environment.evaluation_environment_env_variables", None, environment(evaluation_environment_mode="fresh", evaluation_environment_env_variables={"V": "u"}), {"V": "u"}, {"evaluation_environment_env_variables": {"V": "t"}}, {"V": "t"}, {"environment__evaluation_environment_env_variables": {"V": "r"}}, {"V": "r"}),
    Setting("retry.max_retries", 0, execution(max_retries=0), 0, recipe={"retry": RetryPlan(max_retries=5)}, recipes=5),
    Setting("retry.retry_pattern_list", None, execution(retry_pattern_list=[]), [], recipe={"retry": RetryPlan(retry_pattern_list=["x"])}, recipes=["x"]),
    Setting("retry.min_delay_seconds", 5.0, execution(retry_min_delay_seconds=5.0), 5.0, recipe={"retry": RetryPlan(min_delay_seconds=1)}, recipes=1.0),
    Setting("retry.max_delay_seconds", 60.0, execution(retry_max_delay_seconds=60.0), 60.0, recipe={"retry": RetryPlan(max_delay_seconds=99)}, recipes=99.0),
    Setting("keep_environment", False, execution(keep_environment=False), False, recipe={"keep_environment": True}, recipes=True),
    Setting("save_artifacts", False, execution(save_artifacts=False), False, recipe={"save_artifacts": True}, recipes=True),
    Setting("artifacts", [], execution(artifacts=[]), [], {"artifacts": [FILE]}, [FILE], {"artifacts": [OTHER]}, [OTHER]),
    Setting("artifact_collect", [], execution(artifact_collect=[]), [], {"artifact_collect": [{"command": "t"}]}, [ArtifactCommand(command="t")], {"artifact_collect": [ArtifactCommand(command="r")]}, [ArtifactCommand(command="r")]),
    Setting("artifact_limits.max_files", 100_000, {"execution": {"artifact_limits": {"max_files": 100_000}}, "explicit": ["execution.artifact_limits.max_files"]}, 100_000, recipe={"artifact_limits": ArtifactLimits(max_files=1)}, recipes=1),
    Setting("budgets.run_timeout_seconds", None, execution(run_timeout_seconds=1), 1.0, {"run_timeout_seconds": 2}, 2.0, {"budgets": Budgets(run_timeout_seconds=3)}, 3.0),
    Setting("budgets.evaluation_timeout_seconds", None, execution(evaluation_timeout_seconds=1), 1.0, {"evaluation_timeout_seconds": 2}, 2.0, {"budgets": Budgets(evaluation_timeout_seconds=3)}, 3.0),
    Setting("budgets.harness_result_timeout_seconds", 60.0, execution(harness_result_timeout_seconds=60.0), 60.0, recipe={"budgets": Budgets(harness_result_timeout_seconds=3)}, recipes=3.0),
    Setting("budgets.artifact_collect_timeout_seconds", None, execution(artifact_collect_timeout_seconds=1), 1.0, recipe={"budgets": Budgets(artifact_collect_timeout_seconds=3)}, recipes=3.0),
]  # fmt: skip
EACH = pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.place)


@EACH
def test_without_any_wish_the_default_holds(setting: Setting) -> None:
    assert attrgetter(setting.place)(planned()) == setting.default


@pytest.mark.parametrize(
    "setting", [item for item in SETTINGS if item.task], ids=lambda setting: setting.place
)
def test_the_task_fills_what_the_user_left_open(setting: Setting) -> None:
    assert attrgetter(setting.place)(planned(None, task_of(**setting.task or {}))) == setting.tasks


@EACH
def test_a_recipe_goes_before_the_task(setting: Setting) -> None:
    assert setting.recipe is not None
    plan = planned(None, task_of(**setting.task or {}), sets(**setting.recipe))
    assert attrgetter(setting.place)(plan) == setting.recipes


@EACH
def test_the_user_goes_before_everybody(setting: Setting) -> None:
    assert setting.recipe is not None
    plan = planned(request_of(**setting.user), task_of(**setting.task or {}), sets(**setting.recipe))
    assert attrgetter(setting.place)(plan) == setting.users


def test_variables_and_parameters_are_merged_name_by_name() -> None:
    request = request_of({"env_variables": {"A": "user"}, "params": {"p": "user"}})
    task = task_of(env_variables={"A": "task", "B": "task", "C": "task"})
    changed = {"A": "recipe", "B": "recipe", "D": "recipe"}
    plan = planned(
        request, task, sets(environment__env_variables=changed, environment__params={"p": "r", "q": "r"})
    )
    assert plan.environment.env_variables == {"A": "user", "B": "recipe", "D": "recipe"}
    assert plan.environment.params == {"p": "user", "q": "r"}


def test_recipes_see_what_the_ones_before_them_made() -> None:
    seen: list[str | None] = []

    def look(plan: Any, *_: Any) -> Any:
        seen.append(plan.environment.setup.image)
        return plan

    plan = planned(None, None, sets(environment__setup=EnvironmentSetup(image="one")), recipe(look, "second"))
    assert seen == ["one"]
    assert plan.applied_recipes == ["changes", "second"]


def test_a_recipe_that_does_not_match_is_not_named() -> None:
    unwanted = recipe(lambda plan, *_: plan, matches=lambda *_: False)
    assert planned(None, None, unwanted).applied_recipes == []


def test_a_recipe_cannot_rename_the_attempt() -> None:
    plan = planned(None, None, sets(task_id="other", attempt=9, applied_recipes=["nobody"]))
    assert (plan.task_id, plan.attempt, plan.applied_recipes) == ("t", 1, ["changes"])


def test_what_a_recipe_changes_in_place_reaches_nobody_else() -> None:
    request, task = request_of({"params": {"list": [1]}}), task_of(metadata={"list": [1]})

    def vandal(plan: Any, request: Any, task: Any) -> Any:
        request.environment.params["list"].append(2)
        request.execution.max_retries = 7
        task.metadata["list"].append(2)
        return plan

    before = request.model_dump(), task.model_dump()
    planned(request, task, recipe(vandal), recipe(vandal, "matcher", matches=lambda r, t, p: vandal(p, r, t)))
    assert (request.model_dump(), task.model_dump()) == before


def test_the_same_inputs_give_the_same_plan() -> None:
    request = request_of({"env_variables": {"A": "1"}}, {"timeout_multiplier": 2})
    made = [
        planned(request, task_of(run_timeout_seconds=3), sets(environment__params={"z": 1, "a": 2}))
        for _ in range(3)
    ]
    assert len({plan.model_dump_json() for plan in made}) == 1


# What follows from other settings


def test_a_verifier_gets_an_environment_only_in_mode_fresh() -> None:
    image = EnvironmentSetup(image="r")
    fresh = planned(
        request_of({"evaluation_environment_mode": "fresh"}), None, sets(environment__setup=image)
    )
    assert fresh.evaluation_environment is not None
    assert fresh.evaluation_environment.setup.image == "r"
    assert planned().evaluation_environment is None


def test_a_recipe_that_chooses_fresh_gets_an_environment_and_the_transfer_of_artifacts() -> None:
    plan = planned(None, None, sets(evaluation_environment_mode=EvaluationMode.FRESH))
    assert plan.evaluation_environment == plan.environment
    assert plan.save_artifacts


def test_start_variables_of_the_verifier_replace_the_common_ones() -> None:
    request = request_of(
        {
            "evaluation_environment_mode": "fresh",
            "env_variables": {"A": "common"},
            "evaluation_environment_env_variables": {"B": "own"},
        }
    )
    plan = planned(request, None, sets(environment__env_variables={"R": "recipe"}))
    assert plan.evaluation_environment is not None
    assert plan.evaluation_environment.env_variables == {"B": "own"}
    assert plan.environment.env_variables == {"A": "common", "R": "recipe"}


def test_a_recipe_may_give_the_verifier_another_image_but_not_overrule_the_user_there() -> None:
    request = request_of({"evaluation_environment_mode": "fresh", "resources": {"cpu": 1}})
    spec = request.environment.model_copy(
        update={"setup": EnvironmentSetup(image="judge"), "resources": ResourceRequirements(cpu=8)}
    )
    plan = planned(request, None, sets(evaluation_environment=spec))
    assert plan.evaluation_environment is not None
    assert plan.evaluation_environment.setup.image == "judge"
    assert plan.evaluation_environment.resources.cpu == 1


def test_policies_of_the_phases_follow_a_changed_baseline() -> None:
    plan = planned(None, None, sets(environment__network_policy=NO_NETWORK))
    assert plan.run_network_policy == plan.evaluation_network_policy == NO_NETWORK


# Budgets: base × multiplier


@pytest.mark.parametrize(
    ("settings", "bases", "run", "evaluation"),
    [
        ({}, {}, None, None),
        ({"timeout_multiplier": 3}, {}, None, None),
        ({"run_timeout_multiplier": 3}, {}, None, None),
        ({}, {"task": 100}, 100, 100),
        ({}, {"benchmark": 200, "task": 100}, 200, 200),
        ({}, {"harness": 300}, 300, None),
        ({}, {"harness": 300, "task": 100}, 100, 100),
        ({"run_timeout_seconds": 10}, {"benchmark": 200, "task": 100, "harness": 300}, 10, 200),
        ({"timeout_multiplier": 2}, {"task": 100}, 200, 200),
        ({"timeout_multiplier": 0.5, "run_timeout_seconds": 10}, {"task": 100}, 5, 50),
        ({"timeout_multiplier": 2, "run_timeout_multiplier": 3}, {"task": 100}, 300, 200),
        ({"timeout_multiplier": 2, "evaluation_timeout_multiplier": 0.1}, {"task": 100}, 200, 10),
        ({"timeout_multiplier": 2}, {"recipe": 7, "task": 100}, 14, 200),
        ({"run_timeout_seconds": 5, "timeout_multiplier": 2}, {"recipe": 7}, 10, None),
    ],
)  # fmt: skip
def test_a_budget_is_its_base_times_one_multiplier(
    settings: dict[str, Any], bases: dict[str, float], run: float | None, evaluation: float | None
) -> None:
    def both(name: str) -> dict[str, float | None]:
        return {"run_timeout_seconds": bases.get(name), "evaluation_timeout_seconds": bases.get(name)}

    recipes = [sets(budgets__run_timeout_seconds=bases["recipe"])] if "recipe" in bases else []
    plan = planned(
        request_of(execution=settings),
        task_of(**both("task")),
        *recipes,
        benchmark=BenchmarkPlan(**both("benchmark")),
        harness=HarnessPlan(run_timeout_seconds=bases.get("harness")),
    )
    assert plan.budgets.run_timeout_seconds == run
    assert plan.budgets.evaluation_timeout_seconds == evaluation


def test_multipliers_touch_no_other_budget() -> None:
    request = request_of(execution={"timeout_multiplier": 9, "artifact_collect_timeout_seconds": 10})
    budgets = planned(request).budgets
    assert (budgets.harness_result_timeout_seconds, budgets.artifact_collect_timeout_seconds) == (60, 10)


def test_a_recipe_may_change_the_base_in_the_benchmarks_plan() -> None:
    changed = BenchmarkPlan(run_timeout_seconds=3600)
    plan = planned(None, task_of(run_timeout_seconds=5), sets(benchmark_plan=changed))
    assert plan.budgets.run_timeout_seconds == 3600


# What cannot be planned


def boom(*_: Any) -> Any:
    raise ValueError("no such table")


def leave(*_: Any) -> Any:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: planned(benchmark=boom), "benchmark 'planned' could not plan: ValueError: no such table"),
        (lambda: planned(harness=boom), "harness 'planned' could not plan: ValueError: no such table"),
        (lambda: planned(benchmark=leave), "benchmark 'planned' could not plan: SystemExit: 3"),
        (
            lambda: planned(benchmark=lambda: None),
            "benchmark 'planned' could not plan: TypeError: it returned NoneType instead of BenchmarkPlan",
        ),
        (lambda: planned(None, None, recipe(boom)), "recipe 'changes' could not plan: ValueError: no such table"),
        (
            lambda: planned(None, None, recipe(lambda plan, *_: plan, matches=boom)),
            "recipe 'changes' could not plan: ValueError: no such table",
        ),
        (
            lambda: planned(None, None, recipe(lambda *_: None)),
            "recipe 'changes' could not plan: TypeError: it returned NoneType instead of ExecutionPlan",
        ),
    ],
)  # fmt: skip
def test_a_planning_hook_that_raises_is_fatal_for_the_task_and_named(make: Any, message: str) -> None:
    with pytest.raises(StageFailure) as caught:
        make()
    issue = caught.value.issue
    assert (issue.severity, issue.phase, issue.code) == (Severity.FATAL, IssuePhase.SETUP, "setup_failed")
    assert issue.message == message


def test_a_recipe_that_puts_a_wrong_type_into_the_plan_is_named() -> None:
    with pytest.raises(StageFailure, match="recipe 'changes' could not plan: ValidationError"):
        planned(None, None, sets(evaluation_environment_mode="sometimes"))


def test_a_named_failure_keeps_its_code() -> None:
    def refuse(*_: Any) -> Any:
        raise StageFailure.error(IssuePhase.RUN, "task_input_invalid", "the table is empty")

    with pytest.raises(StageFailure) as caught:
        planned(benchmark=refuse)
    assert caught.value.issue.code == "task_input_invalid"
    assert caught.value.issue.severity is Severity.FATAL


def test_a_task_whose_policy_the_provider_cannot_enforce_is_refused() -> None:
    with pytest.raises(
        StageFailure, match="cannot enforce network policy 'no-network'; it offers public"
    ) as e:
        planned(None, task_of(run_network_policy=OFF), environment=PublicOnly)
    assert e.value.issue.code == "network_policy_failed"


def test_a_policy_that_would_have_to_be_switched_is_refused() -> None:
    with pytest.raises(StageFailure, match="cannot switch the network policy between phases"):
        planned(None, task_of(run_network_policy=OFF), environment=FixedNetwork)
    assert (
        planned(None, task_of(network_policy=OFF), environment=FixedNetwork).run_network_policy == NO_NETWORK
    )


def test_start_variables_of_a_verifier_that_gets_no_environment_are_refused() -> None:
    request = request_of({"evaluation_environment_env_variables": {"A": "1"}})
    with pytest.raises(StageFailure, match="needs evaluation_environment_mode 'fresh', not 'none'"):
        planned(request)
    assert planned(request, task_of(evaluation_environment_mode="fresh")).evaluation_environment is not None


def test_a_benchmark_says_how_environments_are_made_where_the_request_does_not() -> None:
    offered = BenchmarkPlan(
        setup=EnvironmentSetup(build_context="/task", workdir="/w"),
        evaluation_setup=EnvironmentSetup(image="verifier"),
        evaluation_resources=ResourceRequirements(cpu=1),
    )
    task = task_of(evaluation_environment_mode="fresh", resources={"cpu": 4})
    plan = planned(request_of(), task, benchmark=offered)
    assert (plan.environment.setup.build_context, plan.environment.setup.workdir) == ("/task", "/w")
    assert plan.evaluation_environment is not None
    assert plan.evaluation_environment.setup == EnvironmentSetup(image="verifier")
    assert (plan.environment.resources.cpu, plan.evaluation_environment.resources.cpu) == (4, 1)


def test_an_image_of_the_request_replaces_what_the_benchmark_would_build() -> None:
    offered = BenchmarkPlan(setup=EnvironmentSetup(build_context="/task", dockerfile="D", workdir="/w"))
    plan = planned(request_of(environment={"setup": {"image": "mine"}}), task_of(), benchmark=offered)
    assert plan.environment.setup == EnvironmentSetup(image="mine", workdir="/w")
