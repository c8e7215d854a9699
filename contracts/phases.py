"""The phases of an attempt, named as in progress events and in the Temporal UI."""

from __future__ import annotations

from enum import StrEnum

from .issues import IssuePhase


class Phase(StrEnum):
    """In order of execution; ``run_task`` stands for ``run_harness`` in a harness-free benchmark."""

    PLAN = "plan"
    OPEN_ENVIRONMENT = "open_environment"
    PREPARE_TASK = "prepare_task"
    START_HARNESS = "start_harness"
    RUN_HARNESS = "run_harness"
    RUN_TASK = "run_task"
    COLLECT_ARTIFACTS = "collect_artifacts"
    EVALUATE_ENVIRONMENT = "evaluate_environment"
    EVALUATE = "evaluate"
    CLOSE_ENVIRONMENT = "close_environment"
    SAVE_PARTIAL = "save_partial"
    ANALYZE = "analyze"


ISSUE_PHASES: dict[Phase, IssuePhase] = {
    Phase.PLAN: IssuePhase.SETUP,
    Phase.OPEN_ENVIRONMENT: IssuePhase.SETUP,
    Phase.PREPARE_TASK: IssuePhase.SETUP,
    Phase.START_HARNESS: IssuePhase.SETUP,
    Phase.RUN_HARNESS: IssuePhase.RUN,
    Phase.RUN_TASK: IssuePhase.RUN,
    Phase.COLLECT_ARTIFACTS: IssuePhase.COLLECT,
    Phase.EVALUATE_ENVIRONMENT: IssuePhase.EVALUATE,
    Phase.EVALUATE: IssuePhase.EVALUATE,
    Phase.CLOSE_ENVIRONMENT: IssuePhase.CLEANUP,
    Phase.SAVE_PARTIAL: IssuePhase.COLLECT,
    Phase.ANALYZE: IssuePhase.EVALUATE,
}
"""The issue phase that a failure in each phase belongs to."""

ENDABLE_PHASES = frozenset(
    {
        Phase.OPEN_ENVIRONMENT,
        Phase.PREPARE_TASK,
        Phase.RUN_HARNESS,
        Phase.RUN_TASK,
        Phase.EVALUATE_ENVIRONMENT,
        Phase.EVALUATE,
    }
)
"""Those that an operator can end. The others end by themselves, within limits of their own."""
