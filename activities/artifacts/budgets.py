"""When Temporal gives up on the phases that artifacts lengthen; the phases themselves are exact."""

from __future__ import annotations

from ...contracts.plan import ExecutionPlan
from ...contracts.request import EvaluationMode

UNLIMITED_SECONDS = 30 * 24 * 3600.0
_HOOK_SECONDS = 3600.0
_SLACK_SECONDS = 60.0


def transfers(plan: ExecutionPlan) -> bool:
    """Whether declared files are brought out of the environment."""
    return plan.save_artifacts and bool(plan.artifacts)


def collection_seconds(plan: ExecutionPlan, *, with_hook: bool) -> float:
    """The longest that collecting may take: commands, transfer, the benchmark's own hook."""
    group = plan.budgets.artifact_collect_timeout_seconds
    own = [command.timeout_seconds for command in plan.artifact_collect]
    if group is None:
        group = UNLIMITED_SECONDS if None in own else sum(seconds or 0.0 for seconds in own)
    transfer = plan.artifact_limits.timeout_seconds if transfers(plan) else 0.0
    return group + transfer + (_HOOK_SECONDS if with_hook else 0.0) + _SLACK_SECONDS


def evaluation_seconds(plan: ExecutionPlan) -> float | None:
    """The evaluation's budget and, before it, that of restoring; ``None`` without a limit."""
    budget = plan.budgets.evaluation_timeout_seconds
    restores = transfers(plan) and plan.evaluation_environment_mode is not EvaluationMode.REUSE
    return budget if budget is None or not restores else budget + plan.artifact_limits.timeout_seconds
