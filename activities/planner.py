"""The planner: from a request and a task to an execution plan. Pure: no clock, files or network.

Order of precedence for every setting: what the user wrote, then recipes, then the task, then the
benchmark's or harness's plan, then the default.
"""

from __future__ import annotations

from ..contracts.network import NetworkPolicy
from ..contracts.plan import BenchmarkPlan, Budgets, ExecutionPlan, HarnessPlan, RetryPlan
from ..contracts.request import (
    EnvironmentSetup,
    EnvironmentSpec,
    EvaluationMode,
    ExecutionSpec,
    ResourceRequirements,
    RunRequest,
)
from ..contracts.task import TaskSpec
from .services import RequestComponents


def plan_attempt(components: RequestComponents, task: TaskSpec, attempt: int) -> ExecutionPlan:
    """The resolved plan of one attempt; the same inputs always give the same plan."""
    request = components.request
    benchmark_plan = components.benchmark.build_plan(task, request)
    harness_plan = components.harness.build_plan(task, request) if components.harness else HarnessPlan()
    plan = _base_plan(components, task, attempt, benchmark_plan, harness_plan)
    applied: list[str] = []
    for recipe in components.recipes:
        if recipe.matches(request, task, plan):
            plan = restore_explicit(recipe.apply(plan, request, task), request)
            applied.append(recipe.id)
    plan = plan.model_copy(update={"applied_recipes": applied, "task_id": task.task_id, "attempt": attempt})
    return plan.model_copy(update={"budgets": _budgets(request.execution, plan, task)})


def _base_plan(
    components: RequestComponents,
    task: TaskSpec,
    attempt: int,
    benchmark_plan: BenchmarkPlan,
    harness_plan: HarnessPlan,
) -> ExecutionPlan:
    request = components.request
    execution = request.execution
    environment = _environment(request.environment, task)
    baseline = environment.network_policy or NetworkPolicy()
    mode = (
        request.environment.evaluation_environment_mode
        or task.evaluation_environment_mode
        or components.benchmark.evaluation_environment_mode
    )
    declared = execution.artifacts if execution.artifacts is not None else task.artifacts or []
    commands = execution.artifact_collect if execution.artifact_collect is not None else task.artifact_collect
    return ExecutionPlan(
        task_id=task.task_id,
        attempt=attempt,
        environment=environment,
        evaluation_environment=_evaluation_environment(environment) if mode is EvaluationMode.FRESH else None,
        evaluation_environment_mode=mode,
        run_network_policy=environment.run_network_policy or baseline,
        evaluation_network_policy=environment.verifier_network_policy or baseline,
        benchmark_plan=benchmark_plan,
        harness_plan=harness_plan,
        retry=RetryPlan(
            max_retries=execution.max_retries,
            retry_pattern_list=execution.retry_pattern_list,
            min_delay_seconds=execution.retry_min_delay_seconds,
            max_delay_seconds=execution.retry_max_delay_seconds,
        ),
        keep_environment=execution.keep_environment,
        artifacts=declared,
        artifact_collect=commands,
        artifact_limits=execution.artifact_limits,
        save_artifacts=True if execution.save_artifacts is None else execution.save_artifacts,
    )


def _environment(spec: EnvironmentSpec, task: TaskSpec) -> EnvironmentSpec:
    """The request's environment with the task's wishes where the request says nothing."""
    return spec.model_copy(
        update={
            "setup": _fill(spec.setup, EnvironmentSetup(image=task.image)),
            "resources": _fill(spec.resources, task.resources or ResourceRequirements()),
            "network_policy": spec.network_policy or task.network_policy,
            "run_network_policy": spec.run_network_policy or task.run_network_policy,
            "verifier_network_policy": spec.verifier_network_policy or task.evaluation_network_policy,
            "env_variables": {**task.env_variables, **spec.env_variables},
            "run_env_variables": {**task.run_env_variables, **spec.run_env_variables},
            "evaluation_env_variables": {
                **task.evaluation_env_variables,
                **spec.evaluation_env_variables,
            },
            "evaluation_environment_env_variables": spec.evaluation_environment_env_variables
            if spec.evaluation_environment_env_variables is not None
            else task.evaluation_environment_env_variables,
        }
    )


def _evaluation_environment(environment: EnvironmentSpec) -> EnvironmentSpec:
    """The verifier's fresh environment: as the task's, with its own start variables if given."""
    own = environment.evaluation_environment_env_variables
    return environment if own is None else environment.model_copy(update={"env_variables": own})


def _fill(wanted: EnvironmentSetup | ResourceRequirements, fallback: object) -> object:
    """A copy of ``wanted`` with its ``None`` fields taken from ``fallback``."""
    missing = {
        name: getattr(fallback, name) for name in type(wanted).model_fields if getattr(wanted, name) is None
    }
    return wanted.model_copy(update=missing)


def restore_explicit(plan: ExecutionPlan, request: RunRequest) -> ExecutionPlan:
    """Put back every value that the user set; a recipe fills gaps, it does not overrule."""
    spec, changed = request.environment, plan.environment
    environment = changed.model_copy(
        update={
            "id": spec.id,
            "params": {**changed.params, **spec.params},
            "setup": _fill(spec.setup, changed.setup),
            "resources": _fill(spec.resources, changed.resources),
            "network_policy": spec.network_policy or changed.network_policy,
            "run_network_policy": spec.run_network_policy or changed.run_network_policy,
            "verifier_network_policy": spec.verifier_network_policy or changed.verifier_network_policy,
            "env_variables": {**changed.env_variables, **spec.env_variables},
            "run_env_variables": {**changed.run_env_variables, **spec.run_env_variables},
            "evaluation_env_variables": {
                **changed.evaluation_env_variables,
                **spec.evaluation_env_variables,
            },
        }
    )
    update: dict[str, object] = {
        "environment": environment,
        "run_network_policy": spec.run_network_policy or plan.run_network_policy,
        "evaluation_network_policy": spec.verifier_network_policy or plan.evaluation_network_policy,
    }
    if spec.evaluation_environment_mode is not None:
        update["evaluation_environment_mode"] = spec.evaluation_environment_mode
    return plan.model_copy(update=update)


def _budgets(execution: ExecutionSpec, plan: ExecutionPlan, task: TaskSpec) -> Budgets:
    """base × (stage multiplier if set, else the common one); a missing base stays unlimited."""
    run = _first(
        execution.run_timeout_seconds,
        plan.benchmark_plan.run_timeout_seconds,
        task.run_timeout_seconds,
        plan.harness_plan.run_timeout_seconds,
    )
    evaluation = _first(
        execution.evaluation_timeout_seconds,
        plan.benchmark_plan.evaluation_timeout_seconds,
        task.evaluation_timeout_seconds,
    )
    common = execution.timeout_multiplier
    return Budgets(
        run_timeout_seconds=_scaled(run, execution.run_timeout_multiplier or common),
        evaluation_timeout_seconds=_scaled(evaluation, execution.evaluation_timeout_multiplier or common),
        harness_result_timeout_seconds=execution.harness_result_timeout_seconds,
        artifact_collect_timeout_seconds=execution.artifact_collect_timeout_seconds,
    )


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _scaled(base: float | None, multiplier: float) -> float | None:
    return None if base is None else base * multiplier
