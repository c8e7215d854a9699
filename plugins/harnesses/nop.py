"""Harness ``nop``: does nothing, to check that a benchmark scores doing nothing as a failure."""

from __future__ import annotations

from ...contracts.component import NoParams
from ...contracts.context import AttemptContext
from ...contracts.environment import EnvironmentSession
from ...contracts.harness import Harness
from ...contracts.plan import HarnessPlan
from ...contracts.request import RunRequest
from ...contracts.result import RunResult, Trajectory
from ...contracts.task import PreparedTask, TaskSpec


class Nop(Harness[NoParams, None]):
    """Returns an empty answer."""

    id = "nop"
    description = "Does nothing and answers nothing; no task should be solved."
    uses_model = False
    parallel_attempts_safe = True
    steps_safe = True
    quick_hooks = frozenset({"start_session", "execute_task", "collect_result", "close_session"})

    def task_problem(self, task: TaskSpec) -> str | None:
        """Nothing: what an agent may use or is told is not needed here."""
        del task
        return None

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
        del session, prepared, request, plan, context

    async def collect_result(
        self,
        session: None,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> RunResult:
        del session, request, plan, context
        return RunResult(
            task_id=prepared.task_id,
            category=prepared.category,
            ground_truth=prepared.ground_truth,
            final_answer="",
            trajectory=Trajectory(),
        )
