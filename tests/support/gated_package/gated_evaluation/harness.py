"""A harness that copies the question, step by step, and goes on after its last checkpoint."""

from agentcompass.contracts import (
    AttemptContext,
    EnvironmentSession,
    Harness,
    HarnessPlan,
    NoParams,
    PreparedTask,
    RunRequest,
    RunResult,
    Trajectory,
    TrajectoryStep,
)

from .gate import passing, write

TURNS = 3


class GatedAgent(Harness[NoParams, EnvironmentSession]):
    """Takes three turns, each checkpointed; the gate of ``execute_task`` stands before the last."""

    id = "gated"
    description = "Copies the question, with gates"
    uses_model = False
    parallel_attempts_safe = True

    async def start_session(
        self, env: EnvironmentSession, request: RunRequest, plan: HarnessPlan, context: AttemptContext
    ) -> EnvironmentSession:
        async with passing(context.task_id, "start_session"):
            return env

    async def execute_task(
        self,
        session: EnvironmentSession,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> None:
        done = await context.load_checkpoint()
        first = done + 1 if isinstance(done, int) else 1
        for turn in range(first, TURNS + 1):
            if turn == TURNS:
                async with passing(context.task_id, "execute_task"):
                    pass
            write(context.task_id, f"turn_{turn}", "began")
            await session.exec('cp question.txt "answer.txt"')
            context.record_step(_step(turn))
            await context.save_checkpoint(turn)

    async def collect_result(
        self,
        session: EnvironmentSession,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> RunResult:
        async with passing(context.task_id, "collect_result"):
            return RunResult(
                task_id=prepared.task_id,
                ground_truth=prepared.ground_truth,
                final_answer=(await session.read(f"{session.workdir}/answer.txt")).decode(),
                trajectory=Trajectory(steps=[_step(turn) for turn in range(1, TURNS + 1)]),
            )


def _step(turn: int) -> TrajectoryStep:
    return TrajectoryStep(step_id=turn, source="agent", message=f"turn {turn}")
