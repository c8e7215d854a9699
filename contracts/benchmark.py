"""Benchmarks: where tasks come from and how an answer is judged."""

from __future__ import annotations

import abc
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, JsonValue

from .benchmark_params import aggregation_spec
from .component import Component
from .context import AttemptContext
from .environment import EnvironmentSession
from .errors import UsageError
from .metrics import (
    BENCHMARK_DEFAULT_CONTRACT,
    AggregationSpec,
    MetricContract,
    MetricKind,
    MetricReport,
    TaskObservations,
)
from .plan import BenchmarkPlan, ExecutionPlan
from .request import EvaluationMode, RunRequest
from .result import RunResult
from .task import PreparedTask, TaskInput, TaskSpec

ParamsT = TypeVar("ParamsT", bound=BaseModel)


class Benchmark(Component[ParamsT]):
    """A set of tasks and their verifier."""

    metric_contract: ClassVar[MetricContract] = BENCHMARK_DEFAULT_CONTRACT
    evaluation_environment_mode: ClassVar[EvaluationMode] = EvaluationMode.NONE
    parallel_attempts_safe: ClassVar[bool] = False
    """True when attempts of one task share nothing and may overlap."""

    @abc.abstractmethod
    async def load_tasks(self, request: RunRequest) -> list[TaskSpec]:
        """All tasks, in a stable order. Raises ``DatasetError`` when the data cannot be used."""

    async def select_tasks(self, tasks: list[TaskSpec], request: RunRequest) -> list[TaskSpec]:
        """The tasks that this request runs; by default ``sample_ids`` and ``limit``, if declared."""
        del request
        wanted: list[str] | None = getattr(self.params, "sample_ids", None)
        limit: int | None = getattr(self.params, "limit", None)
        if wanted is not None:
            missing = sorted(set(wanted) - {task.task_id for task in tasks})
            if missing:
                raise UsageError(f"benchmark {self.id!r} has no task {', '.join(map(repr, missing[:5]))}")
            tasks = [task for task in tasks if task.task_id in set(wanted)]
        return tasks if limit is None else tasks[:limit]

    def aggregation(self) -> AggregationSpec:
        """How tasks become one number; by default what ``aggregation_mode`` and ``category_hierarchy`` say, if declared."""
        mode = getattr(self.params, "aggregation_mode", None)
        return aggregation_spec(mode, getattr(self.params, "category_hierarchy", None))

    def build_plan(self, task: TaskSpec, request: RunRequest) -> BenchmarkPlan:
        """Settings of this task. Pure: no clock, no files, no network."""
        del task, request
        return BenchmarkPlan()

    async def prepare_task(
        self,
        task: TaskSpec,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> PreparedTask:
        """Put the task's files in place and say what the agent is told. May run twice."""
        del env, request, plan, context
        return PreparedTask(
            task_id=task.task_id,
            category=task.category,
            ground_truth=task.ground_truth,
            input=TaskInput(prompt=task.question),
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
        """Read what the agent left, beyond the declared paths, which the runtime collects itself."""
        del task, env, request, plan, context
        return result

    @abc.abstractmethod
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
        """Judge the answer: return ``result`` with ``metrics`` that follow the metric contract."""

    def stops_after_step(self, task: TaskSpec, number: int, scored: RunResult) -> str:
        """Why no step follows step ``number`` (from 1) of ``task``, which ended as ``scored``; empty when one does.

        Pure. Not asked after the last step.
        """
        del task, number, scored
        return ""

    def combine_steps(self, task: TaskSpec, scored: list[RunResult], result: RunResult) -> RunResult:
        """Score a task of several steps: ``result`` is all of them together, without metrics.

        ``scored`` holds the steps that were executed. By default a number is the mean over all declared steps, a
        boolean whether it is true in all of them; a step that was not reached counts as 0. Pure.
        """
        metrics: dict[str, JsonValue] = {}
        for name, kind in self.metric_contract.metrics.items():
            values = [step.metrics.get(name) for step in scored]
            numbers = [value for value in values if isinstance(value, bool | int | float)]
            if len(numbers) == len(scored):  # else there is no observation of it
                complete = len(numbers) == len(task.steps)
                mean = sum(numbers) / len(task.steps)
                metrics[name] = (complete and all(numbers)) if kind is MetricKind.BINARY else mean
        return result.model_copy(update={"metrics": metrics})

    def aggregate_metrics(self, tasks: list[TaskObservations], report: MetricReport) -> MetricReport:
        """Adjust the report that the runtime computed; rarely needed."""
        del tasks
        return report


def overrides_collection(benchmark: Benchmark[Any]) -> bool:
    """Whether a benchmark has a :meth:`Benchmark.collect_artifacts` of its own."""
    return type(benchmark).collect_artifacts is not Benchmark.collect_artifacts


class HarnessFreeBenchmark(Benchmark[ParamsT]):
    """A benchmark that runs its tasks itself; its requests use harness ``none``."""

    uses_model: ClassVar[bool] = True
    """False when ``run_task`` calls no model: then no refused account of a model pauses its requests."""

    @abc.abstractmethod
    async def run_task(
        self,
        prepared: PreparedTask,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> RunResult:
        """Produce the unscored result of one execution."""
