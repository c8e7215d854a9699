"""Tasks that answer with their question; each hook ends as the test's folder says."""

from __future__ import annotations

from pydantic import Field

from agentcompass.contracts import (
    ArtifactSpec,
    AttemptContext,
    BenchmarkPlan,
    Contract,
    EnvironmentSession,
    EvaluationMode,
    ExecutionPlan,
    HarnessFreeBenchmark,
    IssuePhase,
    PreparedTask,
    RunRequest,
    RunResult,
    Severity,
    StageFailure,
    TaskInput,
    TaskSpec,
)

from .stage import enter


class StagedParams(Contract):
    """Parameters of the benchmark."""

    tasks: dict[str, str] = Field(min_length=1)
    """Questions by task id."""
    mode: EvaluationMode = EvaluationMode.NONE
    artifact: bool = False
    """Whether the answer is also a file that is collected, and judged where there is an environment."""


class Staged(HarnessFreeBenchmark[StagedParams]):
    """A task is solved when its answer is its question."""

    id = "staged"
    description = "Tasks whose phases end as a test says"
    Params = StagedParams
    parallel_attempts_safe = True

    async def load_tasks(self, request: RunRequest) -> list[TaskSpec]:
        collected = [ArtifactSpec(source="{workdir}/out.txt")] if self.params.artifact else None
        return [
            TaskSpec(
                task_id=name,
                question=question,
                ground_truth=question,
                evaluation_environment_mode=self.params.mode,
                artifacts=collected,
            )
            for name, question in self.params.tasks.items()
        ]

    async def prepare_task(
        self,
        task: TaskSpec,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> PreparedTask:
        return PreparedTask(
            task_id=task.task_id, ground_truth=task.ground_truth, input=TaskInput(prompt=task.question)
        )

    async def run_task(
        self,
        prepared: PreparedTask,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> RunResult:
        wanted = await enter(context.task_id, context.attempt, "run")
        if wanted == "fatal":
            raise StageFailure.fatal(IssuePhase.RUN, "staged.broken", "the test wants it")
        if wanted in ("error", "warning"):
            context.report_issue(Severity(wanted), IssuePhase.RUN, "staged.trouble", "the test wants it")
        if self.params.artifact:
            await env.write(f"{env.workdir}/out.txt", prepared.input.prompt.encode())
        answer = "wrong" if wanted == "wrong" else prepared.input.prompt
        return RunResult(task_id=prepared.task_id, ground_truth=prepared.ground_truth, final_answer=answer)

    async def evaluate(
        self,
        task: TaskSpec,
        prepared: PreparedTask,
        result: RunResult,
        request: RunRequest,
        plan: ExecutionPlan,
        env: EnvironmentSession | None,
        context: AttemptContext,
    ) -> RunResult:
        wanted = await enter(context.task_id, context.attempt, "evaluate")
        if wanted == "fatal":
            raise StageFailure.fatal(IssuePhase.EVALUATE, "staged.judge", "the test wants it")
        if wanted == "error":
            raise RuntimeError("the test wants it")
        correct = result.final_answer == prepared.ground_truth
        if env is not None and self.params.artifact:
            correct = (await env.read(f"{env.workdir}/out.txt")).decode() == prepared.ground_truth
        return result.model_copy(update={"metrics": {"correct": correct}})
