"""A task whose agent runs detached in the sandbox until somebody makes the file ``go``."""

import asyncio

from agentcompass.contracts import (
    AttemptContext,
    BenchmarkPlan,
    EnvironmentSession,
    EvaluationMode,
    ExecutionPlan,
    HarnessFreeBenchmark,
    NoParams,
    PreparedTask,
    RunRequest,
    RunResult,
    TaskInput,
    TaskSpec,
)

AGENT = "echo started >> starts; echo working; while [ ! -e go ]; do sleep 0.1; done; echo finished"
POLL_SECONDS = 0.2


class Followed(HarnessFreeBenchmark[NoParams]):
    """Solved when the agent was started once and ran to its end."""

    id = "followed"
    description = "Follows a detached process"
    evaluation_environment_mode = EvaluationMode.REUSE
    parallel_attempts_safe = True

    async def load_tasks(self, request: RunRequest) -> list[TaskSpec]:
        return [TaskSpec(task_id="agent", question=AGENT)]

    async def prepare_task(
        self,
        task: TaskSpec,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> PreparedTask:
        return PreparedTask(
            task_id=task.task_id, input=TaskInput(prompt=task.question, workspace=env.workdir)
        )

    async def run_task(
        self,
        prepared: PreparedTask,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> RunResult:
        status = await env.start_process("agent", prepared.input.prompt)
        while status is not None and status.running:
            await asyncio.sleep(POLL_SECONDS)
            status = await env.process_status("agent")
        output = await env.read_process_output("agent", "stdout", 0)
        return RunResult(task_id=prepared.task_id, final_answer=output.decode())

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
        starts = (await env.read("starts")).decode()
        correct = starts == "started\n" and result.final_answer == "working\nfinished\n"
        return result.model_copy(update={"metrics": {"correct": correct}})
