"""The agent finds a table in its work directory and must leave the sum of a column in a file."""

import random

from pydantic import Field

from agentcompass.contracts import (
    AttemptContext,
    Benchmark,
    BenchmarkParams,
    BenchmarkPlan,
    EnvironmentSession,
    EvaluationMode,
    ExecutionPlan,
    OutputFile,
    PreparedTask,
    RunRequest,
    RunResult,
    TaskInput,
    TaskOutput,
    TaskSpec,
)


class CsvTotalsParams(BenchmarkParams):
    """Parameters, as in ``--benchmark-params '{"tasks": 20}'``."""

    tasks: int = Field(default=10, ge=1)
    seed: int = 0


class CsvTotals(Benchmark[CsvTotalsParams]):
    """Sums of generated tables; judged by reading the file that the agent wrote."""

    id = "csv_totals"
    description = "Add up a column of a CSV file"
    Params = CsvTotalsParams
    evaluation_environment_mode = EvaluationMode.REUSE
    parallel_attempts_safe = True

    async def load_tasks(self, request: RunRequest) -> list[TaskSpec]:
        random_numbers = random.Random(self.params.seed)
        tasks = []
        for index in range(self.params.tasks):
            amounts = [random_numbers.randint(1, 500) for _ in range(10 * (index + 1))]
            table = "item,amount\n" + "".join(f"{n},{amount}\n" for n, amount in enumerate(amounts))
            tasks.append(
                TaskSpec(
                    task_id=f"table-{index}",
                    question="Write the sum of the column amount in sales.csv into total.txt.",
                    category="large" if len(amounts) > 50 else "small",
                    ground_truth=sum(amounts),
                    metadata={"table": table},
                )
            )
        return tasks

    async def prepare_task(
        self,
        task: TaskSpec,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> PreparedTask:
        await env.write(f"{env.workdir}/sales.csv", str(task.metadata["table"]).encode())
        return PreparedTask(
            task_id=task.task_id,
            category=task.category,
            ground_truth=task.ground_truth,
            input=TaskInput(prompt=task.question, workspace=env.workdir),
            output=TaskOutput(files=[OutputFile(path="total.txt")]),
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
        assert env is not None  # the mode is "reuse"
        try:
            written = (await env.read(f"{env.workdir}/total.txt", max_bytes=1000)).decode("utf-8", "replace")
        except (
            FileNotFoundError,
            ValueError,
        ):  # no file, or far too much: the agent's doing, so a valid fail
            written = ""
        correct = written.strip() == str(task.ground_truth)
        return result.model_copy(update={"final_answer": written.strip(), "metrics": {"correct": correct}})
