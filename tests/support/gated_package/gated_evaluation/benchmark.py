"""A benchmark of named tasks, judged in the environment that the agent used."""

from pydantic import Field

from agentcompass.contracts import (
    ArtifactSpec,
    AttemptContext,
    Benchmark,
    BenchmarkPlan,
    Contract,
    EnvironmentSession,
    EvaluationMode,
    ExecutionPlan,
    MetricReport,
    PreparedTask,
    RunRequest,
    RunResult,
    TaskInput,
    TaskObservations,
    TaskSpec,
)

from .gate import passing, passing_blocking

REQUEST = "request"
"""Stands for the task in the hooks that work on the whole request."""


class GatedParams(Contract):
    """Parameters of the benchmark."""

    tasks: list[str] = Field(min_length=1)
    """Task ids; simple words, because environments are told from each other by them."""


class Gated(Benchmark[GatedParams]):
    """Every hook passes a gate. A task is solved when the agent left its name in answer.txt."""

    id = "gated"
    description = "Tasks whose phases a test can stop"
    Params = GatedParams
    evaluation_environment_mode = EvaluationMode.REUSE
    parallel_attempts_safe = True

    async def load_tasks(self, request: RunRequest) -> list[TaskSpec]:
        async with passing(REQUEST, "load_tasks"):
            return [TaskSpec(task_id=name, question=name, ground_truth=name) for name in self.params.tasks]

    def build_plan(self, task: TaskSpec, request: RunRequest) -> BenchmarkPlan:
        with passing_blocking(task.task_id, "build_plan"):
            return BenchmarkPlan(settings={"made_for": task.task_id})

    async def prepare_task(
        self,
        task: TaskSpec,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> PreparedTask:
        async with passing(task.task_id, "prepare_task"):
            await env.write(f"{env.workdir}/question.txt", task.question.encode())
            return PreparedTask(
                task_id=task.task_id,
                ground_truth=task.ground_truth,
                input=TaskInput(prompt=task.question, workspace=env.workdir),
            )

    async def collect_artifacts(
        self,
        task: TaskSpec,
        env: EnvironmentSession,
        result: RunResult,
        request: RunRequest,
        plan: ExecutionPlan,
        context: AttemptContext,
    ) -> RunResult:
        async with passing(task.task_id, "collect_artifacts"):
            listing = await env.exec("ls")
            return result.model_copy(update={"artifacts": {"files": listing.stdout.text.split()}})

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
        assert env is not None  # neither benchmark judges on the worker
        async with passing(task.task_id, "evaluate"):
            written = (await env.read(f"{env.workdir}/answer.txt", max_bytes=1000)).decode()
            return result.model_copy(update={"metrics": {"correct": written == task.ground_truth}})

    def aggregate_metrics(self, tasks: list[TaskObservations], report: MetricReport) -> MetricReport:
        with passing_blocking(REQUEST, "aggregate_metrics"):
            return report


class GatedFresh(Gated):
    """The same, judged by what was collected, in an environment that the agent has not seen."""

    id = "gated_fresh"
    description = "Tasks whose phases a test can stop, and whose files are restored"
    evaluation_environment_mode = EvaluationMode.FRESH

    async def load_tasks(self, request: RunRequest) -> list[TaskSpec]:
        restored = [ArtifactSpec(source="{workdir}/" + name) for name in ("answer.txt", "question.txt")]
        tasks = await super().load_tasks(request)
        return [task.model_copy(update={"artifacts": restored}) for task in tasks]
