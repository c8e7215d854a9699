"""Real parts for benchmark tests: a request, a context, and the environment ``host_process``."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agentcompass.contracts import (
    Benchmark,
    EnvironmentSession,
    EnvironmentSpec,
    ExecutionPlan,
    NetworkPolicy,
    OpenRequest,
    RunRequest,
    RunResult,
    TaskSpec,
)
from agentcompass.plugins.environments.host_process import HostProcess, HostProcessParams
from agentcompass.plugins.testing import RecordingContext


class Driver:
    """Takes one benchmark through its hooks, as the runtime would."""

    def __init__(self, benchmark: Benchmark[Any], env: EnvironmentSession | None = None) -> None:
        self.benchmark = benchmark
        self.env = env
        self.request = RunRequest.model_validate(
            {
                "benchmark": {"id": benchmark.id},
                "harness": {"id": "oracle"},
                "environment": {"id": "host_process"},
                "model": {"id": "none"},
            }
        )
        self.context = RecordingContext()

    async def load(self) -> list[TaskSpec]:
        return await self.benchmark.load_tasks(self.request)

    async def select(self) -> list[TaskSpec]:
        return await self.benchmark.select_tasks(await self.load(), self.request)

    async def prepare(self, task: TaskSpec) -> Any:
        plan = self.benchmark.build_plan(task, self.request)
        return await self.benchmark.prepare_task(task, self.env, self.request, plan, self.context)  # type: ignore[arg-type]

    async def judge(self, task: TaskSpec, answer: Any) -> RunResult:
        plan = ExecutionPlan(task_id=task.task_id, attempt=1, environment=self.request.environment)
        prepared = await self.prepare(task)
        result = RunResult(task_id=task.task_id, final_answer=answer)
        return await self.benchmark.evaluate(
            task, prepared, result, self.request, plan, self.env, self.context
        )


@pytest.fixture
def driver() -> Callable[..., Driver]:
    return Driver


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[EnvironmentSession]:
    provider = HostProcess(HostProcessParams(root=str(tmp_path / "environments")))
    request = OpenRequest(
        environment_id="tests",
        spec=EnvironmentSpec(id="host_process"),
        network_policy=NetworkPolicy(),
    )
    session = await provider.open(request)
    try:
        yield session
    finally:
        await provider.close(session.handle)
