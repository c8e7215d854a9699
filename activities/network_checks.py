"""What an environment's provider cannot carry out: found at preflight, and for each task when it is planned."""

from __future__ import annotations

from dataclasses import dataclass

from ..contracts.environment import EnvironmentCapabilities
from ..contracts.issues import IssueCode
from ..contracts.network import NetworkPolicy
from ..contracts.plan import ExecutionPlan
from ..contracts.request import EvaluationMode, RunRequest


@dataclass(frozen=True)
class Problem:
    """Why a plan cannot be carried out."""

    code: IssueCode
    message: str


def network_problems(
    provider: str,
    capabilities: EnvironmentCapabilities,
    baseline: NetworkPolicy,
    run: NetworkPolicy,
    evaluation: NetworkPolicy,
) -> list[str]:
    """Policies that the provider cannot enforce, or cannot switch between."""
    wanted = [baseline, run, evaluation]
    problems = [
        f"environment {provider!r} cannot enforce network policy {mode.value!r}; it offers "
        f"{', '.join(capabilities.network_modes)} (an isolated one such as 'docker' can)"
        for mode in sorted({policy.network_mode for policy in wanted})
        if mode not in capabilities.network_modes
    ]
    if not problems and any(policy != baseline for policy in wanted) and not capabilities.switches_network:
        problems.append(f"environment {provider!r} cannot switch the network policy between phases")
    return problems


def variables_problem(request: RunRequest, mode: EvaluationMode) -> str:
    """Start variables of a verifier's environment that there will not be; empty when all is well."""
    if request.environment.evaluation_environment_env_variables is None or mode is EvaluationMode.FRESH:
        return ""
    return (
        f"evaluation_environment_env_variables needs evaluation_environment_mode 'fresh', not {mode.value!r}; "
        "use evaluation_env_variables for the commands of the evaluation"
    )


def plan_problems(
    plan: ExecutionPlan, request: RunRequest, capabilities: EnvironmentCapabilities
) -> list[Problem]:
    """The same of a resolved plan, to which the task and recipes have added their wishes."""
    found = network_problems(
        plan.environment.id,
        capabilities,
        plan.baseline_network_policy,
        plan.run_network_policy,
        plan.evaluation_network_policy,
    )
    problems = [Problem(IssueCode.NETWORK_POLICY_FAILED, text) for text in found]
    text = variables_problem(request, plan.evaluation_environment_mode)
    return [*problems, Problem(IssueCode.SETUP_FAILED, text)] if text else problems
