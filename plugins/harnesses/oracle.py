"""Harness ``oracle``: answers with the reference solution, to check a benchmark's verifier."""

from __future__ import annotations

import json

from pydantic import JsonValue

from ...contracts.component import NoParams
from ...contracts.context import AttemptContext
from ...contracts.environment import EnvironmentSession
from ...contracts.errors import StageFailure
from ...contracts.harness import Harness
from ...contracts.issues import IssueCode, IssuePhase
from ...contracts.plan import HarnessPlan
from ...contracts.request import RunRequest
from ...contracts.result import RunResult, Trajectory, TrajectoryStep
from ...contracts.task import PreparedTask


class Oracle(Harness[NoParams, None]):
    """Returns ``prepared.metadata["oracle_answer"]``, else the ground truth as text."""

    id = "oracle"
    description = "Answers with the reference solution; every task should be solved."
    uses_model = False
    parallel_attempts_safe = True
    quick_hooks = frozenset({"start_session", "execute_task", "collect_result", "close_session"})

    async def start_session(
        self, env: EnvironmentSession, request: RunRequest, plan: HarnessPlan, context: AttemptContext
    ) -> None:
        del env, request, plan, context

    async def execute_task(
        self,
        session: None,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> None:
        del session, request, plan
        context.record_step(_step(reference_answer(prepared)))

    async def collect_result(
        self,
        session: None,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> RunResult:
        del session, request, plan, context
        answer = reference_answer(prepared)
        return RunResult(
            task_id=prepared.task_id,
            category=prepared.category,
            ground_truth=prepared.ground_truth,
            final_answer=answer,
            trajectory=Trajectory(steps=[_step(answer)]),
        )


def _step(answer: str) -> TrajectoryStep:
    return TrajectoryStep(step_id=1, source="agent", message=answer)


def reference_answer(prepared: PreparedTask) -> str:
    """The reference as text; arrays and objects as JSON.

    Raises ``StageFailure`` (``task_input_invalid``) when the task has none.
    """
    answer: JsonValue = prepared.metadata.get("oracle_answer")
    if answer is None:
        answer = prepared.ground_truth
    if answer is None:
        raise StageFailure.fatal(
            IssuePhase.SETUP,
            IssueCode.TASK_INPUT_INVALID,
            f"task {prepared.task_id!r} has neither an oracle_answer nor a ground truth",
        )
    return json.dumps(answer, ensure_ascii=False) if isinstance(answer, list | dict) else str(answer)
