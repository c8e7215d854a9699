"""What the user wrote, put back into a plan that recipes have changed."""

from __future__ import annotations

from typing import TypeVar

from ..contracts.base import Contract
from ..contracts.plan import ExecutionPlan
from ..contracts.request import EnvironmentSpec, ExecutionSpec, RunRequest

ContractT = TypeVar("ContractT", bound=Contract)

_RETRY_FIELDS = {
    "max_retries": "max_retries",
    "retry_pattern_list": "retry_pattern_list",
    "retry_min_delay_seconds": "min_delay_seconds",
    "retry_max_delay_seconds": "max_delay_seconds",
}
_BUDGET_FIELDS = (
    "run_timeout_seconds",
    "evaluation_timeout_seconds",
    "harness_result_timeout_seconds",
    "artifact_collect_timeout_seconds",
)
_PLAN_FIELDS = ("keep_environment", "save_artifacts", "artifacts", "artifact_collect")
_LIMIT_FIELDS = ("max_mb", "max_files", "timeout_seconds")


def restore_explicit(plan: ExecutionPlan, request: RunRequest) -> ExecutionPlan:
    """Put back every value that the user set; a recipe fills gaps, it does not overrule.

    The budgets of ``plan`` are bases here, before multipliers.
    """
    spec, execution = request.environment, request.execution
    update: dict[str, object] = {
        "environment": _restored_environment(plan.environment, spec, spec.env_variables),
        "run_network_policy": spec.run_network_policy or plan.run_network_policy,
        "evaluation_network_policy": spec.verifier_network_policy or plan.evaluation_network_policy,
        "retry": plan.retry.model_copy(
            update={
                name: getattr(execution, key)
                for key, name in _RETRY_FIELDS.items()
                if is_explicit(request, key)
            }
        ),
        "budgets": plan.budgets.model_copy(update=_explicit(request, _BUDGET_FIELDS)),
        "artifact_limits": plan.artifact_limits.model_copy(
            update={
                name: getattr(execution.artifact_limits, name)
                for name in _LIMIT_FIELDS
                if is_explicit(request, f"artifact_limits.{name}")
            }
        ),
        **_explicit(request, _PLAN_FIELDS),
    }
    if plan.evaluation_environment is not None:
        own = spec.evaluation_environment_env_variables
        update["evaluation_environment"] = _restored_environment(
            plan.evaluation_environment, spec, spec.env_variables if own is None else own
        )
    if spec.evaluation_environment_mode is not None:
        update["evaluation_environment_mode"] = spec.evaluation_environment_mode
    return plan.model_copy(update=update)


def _restored_environment(
    changed: EnvironmentSpec, spec: EnvironmentSpec, variables: dict[str, str]
) -> EnvironmentSpec:
    own = spec.evaluation_environment_env_variables
    return changed.model_copy(
        update={
            # Preflight and the slots are of this provider: no recipe moves a task to another one.
            "id": spec.id,
            "params": {**changed.params, **spec.params},
            "setup": filled(spec.setup, changed.setup),
            "resources": filled(spec.resources, changed.resources),
            "network_policy": spec.network_policy or changed.network_policy,
            "run_network_policy": spec.run_network_policy or changed.run_network_policy,
            "verifier_network_policy": spec.verifier_network_policy or changed.verifier_network_policy,
            "evaluation_environment_mode": spec.evaluation_environment_mode,
            "env_variables": {**changed.env_variables, **variables},
            "run_env_variables": {**changed.run_env_variables, **spec.run_env_variables},
            "evaluation_env_variables": {
                **changed.evaluation_env_variables,
                **spec.evaluation_env_variables,
            },
            "evaluation_environment_env_variables": changed.evaluation_environment_env_variables
            if own is None
            else own,
        }
    )


def _explicit(request: RunRequest, names: tuple[str, ...]) -> dict[str, object]:
    return {name: getattr(request.execution, name) for name in names if is_explicit(request, name)}


def is_explicit(request: RunRequest, key: str) -> bool:
    """Whether the user set ``execution.<key>``. A value that equals the default counts when it was written.

    ``None`` never does: in a configuration it means "not set".
    """
    value: object = request.execution
    default: object = ExecutionSpec()
    for part in key.split("."):
        value, default = getattr(value, part), getattr(default, part)
    return value is not None and (value != default or f"execution.{key}" in request.metadata.explicit)


def filled(wanted: ContractT, fallback: ContractT) -> ContractT:
    """A copy of ``wanted`` with its ``None`` fields taken from ``fallback``."""
    missing = {
        name: getattr(fallback, name) for name in type(wanted).model_fields if getattr(wanted, name) is None
    }
    return wanted.model_copy(update=missing)
