"""The planner: from a request and a task to an execution plan. Pure: no clock, files or network.

Order of precedence for every setting: what the user wrote, then recipes, then the task, then the
default. Budgets have one more source: the benchmark's plan comes before the task, the harness's
default after it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

from pydantic import BaseModel

from ..contracts.base import MAX_SECONDS
from ..contracts.errors import StageFailure
from ..contracts.issues import IssueCode, IssuePhase
from ..contracts.plan import BenchmarkPlan, Budgets, ExecutionPlan, HarnessPlan, RetryPlan
from ..contracts.recipe import Recipe
from ..contracts.request import (
    EnvironmentSetup,
    EnvironmentSpec,
    EvaluationMode,
    ExecutionSpec,
    ResourceRequirements,
    RunRequest,
)
from ..contracts.task import TaskSpec
from .classification import describe
from .explicit import filled, restore_explicit
from .network_checks import plan_problems
from .results import of_type
from .services import RequestComponents

T = TypeVar("T")
PlanT = TypeVar("PlanT", bound=BaseModel)

PLANNING: ContextVar[str] = ContextVar("planning")
"""Whose hook plans right now: who is to blame when it does not end."""


def plan_attempt(components: RequestComponents, task: TaskSpec, attempt: int) -> ExecutionPlan:
    """The resolved plan of one attempt; the same inputs always give the same plan.

    Raises ``StageFailure`` (FATAL, phase ``setup``) that names the component whose planning raised,
    or the part of the plan that the environment cannot carry out.
    """
    request = components.request
    plan = _base_plan(components, task, attempt)
    applied: list[str] = []
    for recipe in components.recipes:
        changed = guarded(f"recipe {recipe.id!r}", functools.partial(_applied, recipe, plan, request, task))
        if changed is not None:
            plan = restore_explicit(derive_again(plan, changed, request, task), request)
            applied.append(recipe.id)
    plan = plan.model_copy(update={"applied_recipes": applied, "task_id": task.task_id, "attempt": attempt})
    problems = plan_problems(plan, request, components.environment.capabilities)
    if problems:
        raise StageFailure.fatal(IssuePhase.SETUP, problems[0].code, problems[0].message)
    return plan.model_copy(update={"budgets": _scaled_budgets(plan.budgets, request.execution)})


def _applied(
    recipe: Recipe[Any], plan: ExecutionPlan, request: RunRequest, task: TaskSpec
) -> ExecutionPlan | None:
    """What the recipe makes of the plan, ``None`` when it has nothing to say.

    It gets copies: one that changes its arguments must not change those of other attempts.
    """
    own, request, task = plan.model_copy(deep=True), request.model_copy(deep=True), task.model_copy(deep=True)
    if not recipe.matches(request, task, own):
        return None
    return _valid(recipe.apply(plan.model_copy(deep=True), request, task), ExecutionPlan)


def guarded(owner: str, call: Callable[[], T]) -> T:
    """Call a planning hook; whatever it raises costs this task only, and names ``owner``."""
    PLANNING.set(owner)
    try:
        return call()
    except (Exception, SystemExit) as error:  # extension code may raise anything
        code = error.issue.code if isinstance(error, StageFailure) else IssueCode.SETUP_FAILED
        text = error.issue.message if isinstance(error, StageFailure) else describe(error)
        raise StageFailure.fatal(IssuePhase.SETUP, code, f"{owner} could not plan: {text}") from error


def _valid(value: object, kind: type[PlanT]) -> PlanT:
    """What a hook returned, validated: ``model_copy(update=…)`` is not."""
    return kind.model_validate(of_type(kind, value, "it").model_dump(warnings=False))


def _base_plan(components: RequestComponents, task: TaskSpec, attempt: int) -> ExecutionPlan:
    """The plan before recipes; its budgets are bases, which multipliers scale in the end."""
    request, harness = components.request, components.harness
    execution = request.execution
    benchmark_plan = guarded(
        f"benchmark {request.benchmark.id!r}",
        lambda: _valid(components.benchmark.build_plan(task, request), BenchmarkPlan),
    )
    harness_plan = HarnessPlan()
    if harness is not None:
        harness_plan = guarded(
            f"harness {request.harness.id!r}",
            lambda: _valid(harness.build_plan(task, request), HarnessPlan),
        )
    declared = execution.artifacts if execution.artifacts is not None else task.artifacts or []
    commands = execution.artifact_collect if execution.artifact_collect is not None else task.artifact_collect
    plan = ExecutionPlan(
        task_id=task.task_id,
        attempt=attempt,
        environment=_environment(request.environment, task, benchmark_plan),
        evaluation_environment_mode=request.environment.evaluation_environment_mode
        or task.evaluation_environment_mode
        or components.benchmark.evaluation_environment_mode,
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
    )
    return plan.model_copy(update=_derived(plan, request, task))


def _setup_of(asked: EnvironmentSetup, task: TaskSpec, plan: BenchmarkPlan) -> EnvironmentSetup:
    """How the task's sandbox is made; a request that names an image or a context means that one."""
    offered = filled(plan.setup, EnvironmentSetup(image=task.image, build_context=task.build_context))
    if asked.image or asked.build_context:
        return offered.model_copy(update={"image": None, "build_context": None, "dockerfile": None})
    return offered


def _environment(spec: EnvironmentSpec, task: TaskSpec, plan: BenchmarkPlan) -> EnvironmentSpec:
    """The request's environment with the task's wishes where the request says nothing."""
    own = spec.evaluation_environment_env_variables
    return spec.model_copy(
        update={
            "setup": filled(spec.setup, _setup_of(spec.setup, task, plan)),
            "resources": filled(spec.resources, task.resources or ResourceRequirements()),
            "network_policy": spec.network_policy or task.network_policy,
            "run_network_policy": spec.run_network_policy or task.run_network_policy,
            "verifier_network_policy": spec.verifier_network_policy or task.evaluation_network_policy,
            "env_variables": {**task.env_variables, **spec.env_variables},
            "run_env_variables": {**task.run_env_variables, **spec.run_env_variables},
            "evaluation_env_variables": {
                **task.evaluation_env_variables,
                **spec.evaluation_env_variables,
            },
            "evaluation_environment_env_variables": task.evaluation_environment_env_variables
            if own is None
            else own,
        }
    )


def _derived(plan: ExecutionPlan, request: RunRequest, task: TaskSpec) -> dict[str, object]:
    """The fields that follow from others, as long as nobody sets them."""
    environment, execution = plan.environment, request.execution
    fresh = plan.evaluation_environment_mode is EvaluationMode.FRESH
    return {
        "evaluation_environment": _evaluation_environment(environment, plan.benchmark_plan)
        if fresh
        else None,
        "run_network_policy": environment.run_network_policy or plan.baseline_network_policy,
        "evaluation_network_policy": environment.verifier_network_policy or plan.baseline_network_policy,
        "save_artifacts": fresh if execution.save_artifacts is None else execution.save_artifacts,
        "budgets": Budgets(
            run_timeout_seconds=_first(
                execution.run_timeout_seconds,
                plan.benchmark_plan.run_timeout_seconds,
                task.run_timeout_seconds,
                plan.harness_plan.run_timeout_seconds,
            ),
            evaluation_timeout_seconds=_first(
                execution.evaluation_timeout_seconds,
                plan.benchmark_plan.evaluation_timeout_seconds,
                task.evaluation_timeout_seconds,
            ),
            harness_result_timeout_seconds=execution.harness_result_timeout_seconds,
            artifact_collect_timeout_seconds=execution.artifact_collect_timeout_seconds,
        ),
    }


def derive_again(
    before: ExecutionPlan, after: ExecutionPlan, request: RunRequest, task: TaskSpec
) -> ExecutionPlan:
    """What a recipe made of a plan, with what follows from its changes.

    A derived field that the recipe set stays; one that no recipe ever set follows its sources.
    """
    was, now = _derived(before, request, task), _derived(after, request, task)
    update: dict[str, object] = {
        name: now[name]
        for name in was
        if name != "budgets" and getattr(after, name) == getattr(before, name) == was[name]
    }
    old, new = was["budgets"], now["budgets"]
    update["budgets"] = after.budgets.model_copy(
        update={
            name: getattr(new, name)
            for name in Budgets.model_fields
            if getattr(after.budgets, name) == getattr(before.budgets, name) == getattr(old, name)
        }
    )
    if after.evaluation_environment_mode is not EvaluationMode.FRESH:
        update["evaluation_environment"] = None
    elif after.evaluation_environment is None:
        update["evaluation_environment"] = now["evaluation_environment"]
    return after.model_copy(update=update)


def _evaluation_environment(environment: EnvironmentSpec, plan: BenchmarkPlan) -> EnvironmentSpec:
    """The verifier's fresh environment: as the task's, with what it has of its own."""
    own: dict[str, object] = {
        "env_variables": environment.evaluation_environment_env_variables,
        "setup": plan.evaluation_setup,
        "resources": plan.evaluation_resources,
    }
    return environment.model_copy(update={name: value for name, value in own.items() if value is not None})


def _scaled_budgets(bases: Budgets, execution: ExecutionSpec) -> Budgets:
    """base × (stage multiplier if set, else the common one); a missing base stays unlimited."""
    common = execution.timeout_multiplier
    return bases.model_copy(
        update={
            "run_timeout_seconds": _scaled(
                bases.run_timeout_seconds, execution.run_timeout_multiplier or common
            ),
            "evaluation_timeout_seconds": _scaled(
                bases.evaluation_timeout_seconds, execution.evaluation_timeout_multiplier or common
            ),
        }
    )


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _scaled(base: float | None, multiplier: float) -> float | None:
    # A task's or benchmark's own limit may be infinite; what follows counts in nanoseconds.
    return None if base is None else min(base * multiplier, MAX_SECONDS)
