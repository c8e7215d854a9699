"""A benchmark of scripted tasks: solved when the answer is ``ok``."""

from typing import Any

from agentcompass.contracts import (
    AttemptContext,
    Benchmark,
    BenchmarkPlan,
    EnvironmentSession,
    ExecutionPlan,
    HarnessFreeBenchmark,
    IssuePhase,
    Message,
    OutputFile,
    PreparedTask,
    RunRequest,
    RunResult,
    TaskInput,
    TaskOutput,
    TaskSpec,
)
from agentcompass.contracts.component import blocking
from agentcompass.plugins.models.factory import create_model_client

from .script import RowsParams, act, row_of

METRICS: dict[str, Any] = {
    "undeclared": {"correct": True, "surprise": 1},
    "ill-typed": {"correct": "yes"},
    "unnumbered": {"correct": float("nan")},
}


class Rows(Benchmark[RowsParams]):
    """Does in every hook what the task's script says."""

    id = "rows"
    description = "Scripted tasks"
    Params = RowsParams
    parallel_attempts_safe = True
    quick_hooks = frozenset({"prepare_task", "evaluate", "run_task"})

    async def load_tasks(self, request: RunRequest) -> list[TaskSpec]:
        return [
            TaskSpec(
                task_id=row.id,
                ground_truth="ok",
                evaluation_environment_mode=row.mode,
                run_timeout_seconds=row.run_timeout_seconds,
                evaluation_timeout_seconds=row.evaluation_timeout_seconds,
            )
            for row in self.params.tasks
        ]

    def build_plan(self, task: TaskSpec, request: RunRequest) -> BenchmarkPlan:
        if "build_plan" in row_of(request, task.task_id).do:
            raise LookupError("no plan for this one")
        return BenchmarkPlan()

    async def prepare_task(
        self,
        task: TaskSpec,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> PreparedTask:
        row = row_of(request, task.task_id)
        printed = await act(row, "prepare_task", context, env)
        if row.action("prepare_task", context) == "none":
            return None  # type: ignore[return-value]  # as a careless author's would
        return PreparedTask(
            task_id=task.task_id,
            input=TaskInput(prompt="say ok"),
            output=TaskOutput(files=[OutputFile(path=path) for path in row.files]),
            metadata={"prepare": printed},
        )

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
        row = row_of(request, task.task_id)
        printed = await act(row, "evaluate", context, env)
        action = row.action("evaluate", context)
        if action == "none":
            return None  # type: ignore[return-value]  # as a careless author's would
        if action == "judge":
            await ask_judge(request, context)
        extra = {**result.extra, "prepare": prepared.metadata.get("prepare"), "evaluate": printed}
        metrics = METRICS.get(action, {"correct": result.final_answer == "ok"})
        return result.model_copy(update={"metrics": metrics, "extra": extra})


async def ask_judge(request: RunRequest, context: AttemptContext) -> None:
    """Call the request's model as a judge."""
    key = context.resolve_secret(request.model.api_key)
    async with create_model_client(request.model, key, phase=IssuePhase.EVALUATE, log=context.log) as client:
        await client.generate([Message(role="user", content="is it right?")])


class RowsFree(Rows, HarnessFreeBenchmark[RowsParams]):
    """The same without a harness."""

    id = "rows_free"

    async def run_task(
        self,
        prepared: PreparedTask,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> RunResult:
        row = row_of(request, prepared.task_id)
        printed = await act(row, "run_task", context, env)
        return RunResult(task_id=prepared.task_id, final_answer="ok", extra={"run": printed})


class SlowRowsFree(RowsFree):
    """The same with activities of their own, which heartbeat."""

    id = "rows_free_slow"
    quick_hooks = frozenset()


class SlowRows(Rows):
    """With a harness, in activities of their own."""

    id = "rows_slow"
    quick_hooks = frozenset()


class BlockingRows(SlowRows):
    """Judges in a thread."""

    id = "rows_blocking"

    @blocking
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
        return await super().evaluate(task, prepared, result, request, plan, env, context)
