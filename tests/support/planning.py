"""Small components to plan with; nothing here is ever opened or run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from agentcompass.activities.planner import plan_attempt
from agentcompass.activities.services import RequestComponents, build_components
from agentcompass.contracts.benchmark import Benchmark
from agentcompass.contracts.component import NoParams
from agentcompass.contracts.context import AttemptContext
from agentcompass.contracts.environment import (
    Environment,
    EnvironmentCapabilities,
    EnvironmentHandle,
    EnvironmentSession,
    OpenRequest,
)
from agentcompass.contracts.harness import Harness
from agentcompass.contracts.network import NetworkMode
from agentcompass.contracts.plan import BenchmarkPlan, ExecutionPlan, HarnessPlan
from agentcompass.contracts.recipe import Recipe
from agentcompass.contracts.request import RunRequest
from agentcompass.contracts.result import RunResult
from agentcompass.contracts.task import PreparedTask, TaskSpec
from agentcompass.plugins.registry import load_registry

Apply = Callable[[ExecutionPlan, RunRequest, TaskSpec], Any]


class PlannedBenchmark(Benchmark[NoParams]):
    """Returns the plan that it was given; a callable in its place is called."""

    id = "planned"
    plan: BenchmarkPlan | Callable[[], Any] = BenchmarkPlan()

    async def load_tasks(self, request: RunRequest) -> list[TaskSpec]:
        raise AssertionError("planning loads nothing")

    def build_plan(self, task: TaskSpec, request: RunRequest) -> BenchmarkPlan:
        return self.plan if isinstance(self.plan, BenchmarkPlan) else self.plan()  # type: ignore[no-any-return]

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
        raise AssertionError("planning evaluates nothing")


class PlannedHarness(Harness[NoParams, None]):
    """Returns the plan that it was given; a callable in its place is called."""

    id = "planned"
    plan: HarnessPlan | Callable[[], Any] = HarnessPlan()

    def build_plan(self, task: TaskSpec, request: RunRequest) -> HarnessPlan:
        return self.plan if isinstance(self.plan, HarnessPlan) else self.plan()  # type: ignore[no-any-return]

    async def start_session(
        self, env: EnvironmentSession, request: RunRequest, plan: HarnessPlan, context: AttemptContext
    ) -> None:
        raise AssertionError("planning starts nothing")

    async def execute_task(
        self,
        session: None,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> None:
        raise AssertionError("planning executes nothing")

    async def collect_result(
        self,
        session: None,
        prepared: PreparedTask,
        request: RunRequest,
        plan: HarnessPlan,
        context: AttemptContext,
    ) -> RunResult:
        raise AssertionError("planning collects nothing")


class AnyNetwork(Environment[NoParams]):
    """Enforces every policy and switches between them."""

    id = "sandbox"
    capabilities = EnvironmentCapabilities(network_modes=list(NetworkMode), switches_network=True)

    async def open(self, request: OpenRequest) -> EnvironmentSession:
        raise AssertionError("planning opens nothing")

    async def attach(self, handle: EnvironmentHandle) -> EnvironmentSession:
        raise AssertionError("planning opens nothing")

    async def close(self, handle: EnvironmentHandle) -> None:
        raise AssertionError("planning opens nothing")


class PublicOnly(AnyNetwork):
    """As a host process: no policy but public."""

    capabilities = EnvironmentCapabilities()


class FixedNetwork(AnyNetwork):
    """Enforces every policy from the start, and cannot change it."""

    capabilities = EnvironmentCapabilities(network_modes=list(NetworkMode))


def recipe(
    apply: Apply, name: str = "changes", matches: Callable[..., bool] = lambda *_: True
) -> Recipe[Any]:
    """A recipe that does what ``apply`` does."""

    class Made(Recipe[NoParams]):
        id: ClassVar[str] = name

        def matches(self, request: RunRequest, task: TaskSpec, plan: ExecutionPlan) -> bool:
            return matches(request, task, plan)

        def apply(self, plan: ExecutionPlan, request: RunRequest, task: TaskSpec) -> ExecutionPlan:
            return apply(plan, request, task)  # type: ignore[no-any-return]

    return Made(NoParams())


def sets(**changes: Any) -> Recipe[Any]:
    """A recipe that replaces fields of the plan; ``environment__image=…`` reaches into a part of it."""

    def apply(plan: ExecutionPlan, request: RunRequest, task: TaskSpec) -> ExecutionPlan:
        for name, value in changes.items():
            part, _, field = name.partition("__")
            if field:
                value = getattr(plan, part).model_copy(update={field: value})
            plan = plan.model_copy(update={part: value})
        return plan

    return recipe(apply)


def request_of(
    environment: dict[str, Any] | None = None,
    execution: dict[str, Any] | None = None,
    explicit: list[str] | None = None,
) -> RunRequest:
    """A request in which only these settings were made."""
    return RunRequest.model_validate(
        {
            "benchmark": {"id": "planned"},
            "harness": {"id": "planned"},
            "environment": {"id": "sandbox", **(environment or {})},
            "model": {"id": "m"},
            "execution": execution or {},
            "metadata": {"explicit": explicit or []},
        }
    )


def task_of(**settings: Any) -> TaskSpec:
    """A task with these wishes."""
    return TaskSpec.model_validate({"task_id": "t", **settings})


def planned(
    request: RunRequest | None = None,
    task: TaskSpec | None = None,
    *recipes: Recipe[Any],
    benchmark: BenchmarkPlan | Callable[[], Any] | None = None,
    harness: HarnessPlan | Callable[[], Any] | None = None,
    environment: type[Environment[Any]] = AnyNetwork,
) -> ExecutionPlan:
    """The plan of a first attempt."""
    bench, driver = PlannedBenchmark(NoParams()), PlannedHarness(NoParams())
    if benchmark is not None:
        bench.plan = benchmark
    if harness is not None:
        driver.plan = harness
    components = RequestComponents(
        request or request_of(), bench, environment(NoParams()), driver, list(recipes)
    )
    return plan_attempt(components, task or task_of(), 1)


def planned_for(
    benchmark: str, params: dict[str, Any], task: TaskSpec, environment: dict[str, Any]
) -> ExecutionPlan:
    """The plan of a first attempt with installed components and recipes; its harness is the oracle."""
    request = RunRequest.model_validate(
        {
            "benchmark": {"id": benchmark, "params": params},
            "harness": {"id": "oracle"},
            "environment": environment,
            "model": {"id": "none"},
        }
    )
    return plan_attempt(build_components(request, load_registry()), task, 1)
