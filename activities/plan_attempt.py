"""Plan an attempt and record the plan, before anything is opened."""

from __future__ import annotations

import asyncio
import functools

from temporalio import activity

from ..contracts.activities import PLAN_ATTEMPT, AttemptPlan, AttemptRef, ExecutionRef
from ..contracts.benchmark import overrides_collection
from ..contracts.errors import StageFailure
from ..contracts.launch import LaunchRuntime
from ..contracts.phases import Phase
from ..contracts.plan import ExecutionPlan
from ..contracts.records import PlanSummary
from ..contracts.request import EnvironmentSpec, EvaluationMode
from ..contracts.task import TaskSpec, step_of
from .artifacts.budgets import collection_seconds, evaluation_seconds, transfers
from .boundary import activity_boundary
from .classification import diagnostics_of
from .context import MAX_UNCHARGED_SECONDS
from .planner import guarded, plan_attempt
from .planning import planned
from .reuse import resumes_evaluation
from .services import RequestComponents, Services, build_environment
from .store import EventSource, run_log_scope, task_digest
from .store.progress import open_progress

_START_SECONDS = 7200.0
"""What a harness may need to start (to install an agent, say), which is not charged to its budget."""


class PlanAttempt:
    """Running it twice is safe: the plan is a pure function and its events have fixed keys."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=PLAN_ATTEMPT.name)
    @activity_boundary
    async def plan_attempt(self, input: AttemptRef) -> AttemptPlan:
        """Resolve, store and announce the plan; tell the workflow what it needs of it."""
        store = self._services.store(input.run_dir)
        with run_log_scope(input.run_dir):
            components = self._services.components(input.run_dir)
            task = store.task(input.task_index)
            events = EventSource.of(store.request_state(), input.generation)
            before = store.reopened_tasks.find(input.task_id) if input.generation else None
            task_id, category = task.task_id, task.category or None
            started = [
                events.task_started(
                    task_id,
                    category,
                    index=input.task_index,
                    total=store.task_count(),
                    previous_status=before.status if before else None,
                    previous_severity=before.severity if before else None,
                ),
                events.attempt_started(task_id, category, attempt=input.attempt),
                events.phase_changed(
                    task_id, category, attempt=input.attempt, execution=1, phase=Phase.PLAN.value
                ),
            ]
            execution = store.execution(ExecutionRef(**input.model_dump()))
            try:
                plan, *steps = await planned(
                    components, functools.partial(self._plans, components, task, input.attempt)
                )
            except StageFailure as error:
                execution.add_diagnostics(diagnostics_of(error))
                await open_progress(input.run_dir).emit(started)
                raise
            for number, step in enumerate(steps, start=1):
                store.execution(ExecutionRef(**input.model_dump(), step=number)).save_plan(step)
            execution.save_plan(plan)
            resolved = events.execution_plan_resolved(
                task_id, category, attempt=input.attempt, plan=summarize(plan)
            )
            await open_progress(input.run_dir).emit([*started, resolved])
            resumed = store.evaluation_checkpoints.exists(
                input.task_id, input.attempt
            ) and await asyncio.to_thread(resumes_evaluation, store, input, plan, task_digest(task))
            finished = store.attempt(input.task_id, input.attempt) is not None
        runtime = store.request_state().runtime
        pooled = await self._pooled([plan, *steps], runtime)
        found, *parts = (
            self._for_workflow(components, each, runtime, pooled).model_copy(update={"pooled": pooled})
            for each in (plan, *steps)
        )
        if parts:
            # Nothing of it can be judged again alone: each step begins in what the one before left.
            found = found.model_copy(update={"steps": parts, "mode": EvaluationMode.REUSE})
        return found.model_copy(update={"resume_evaluation": resumed, "finished": finished})

    async def _pooled(self, plans: list[ExecutionPlan], runtime: LaunchRuntime) -> list[str]:
        """The environments that a pool gives places or turns for.

        Also without limits over all launches: where several processes open environments of one launch, they
        keep to its rate together.
        """
        specs = [spec for plan in plans for spec in (plan.environment, plan.evaluation_environment)]
        shared = not self._services.settings.private
        pooled = [
            name
            for name in sorted({spec.id for spec in specs if spec is not None})
            if (shared and runtime.env_open_qps.get(name, 0.0) > 0) or await self._services.pools.has(name)
        ]
        if pooled:
            self._services.pools.found.set()
        return pooled

    def _plans(self, components: RequestComponents, task: TaskSpec, attempt: int) -> list[ExecutionPlan]:
        """Of the task, and of each of its steps."""
        steps = (step_of(task, number) for number in range(1, len(task.steps) + 1))
        return [self._plan(components, each, attempt) for each in (task, *steps)]

    def _plan(self, components: RequestComponents, task: TaskSpec, attempt: int) -> ExecutionPlan:
        plan, request = plan_attempt(components, task, attempt), components.request
        for spec in (plan.environment, plan.evaluation_environment):
            if spec is not None and spec.params != request.environment.params:  # a recipe's
                guarded(
                    f"recipes {', '.join(plan.applied_recipes)}",
                    functools.partial(build_environment, spec, self._services.registry(request)),
                )
        return plan

    def _for_workflow(
        self, components: RequestComponents, plan: ExecutionPlan, runtime: LaunchRuntime, pooled: list[str]
    ) -> AttemptPlan:
        budgets = plan.budgets
        evaluation = plan.evaluation_environment
        return AttemptPlan(
            environment=plan.environment.id,
            evaluation_environment=evaluation.id if evaluation else None,
            mode=plan.evaluation_environment_mode,
            retry=plan.retry,
            keep_environment=plan.keep_environment,
            harness_free=components.harness is None,
            collects_artifacts=collects_artifacts(components, plan),
            run_timeout_seconds=_with_waiting(
                budgets.run_timeout_seconds, budgets.harness_result_timeout_seconds + _START_SECONDS
            ),
            evaluation_timeout_seconds=_with_waiting(evaluation_seconds(plan)),
            collect_timeout_seconds=collection_seconds(
                plan, with_hook=overrides_collection(components.benchmark)
            ),
            quick_phases=self._quick_phases(components, plan, runtime, pooled),
            host_bound=components.environment.capabilities.host_bound,
            cleanup_grace_seconds=runtime.cleanup_grace_seconds,
        )

    def _quick_phases(
        self, components: RequestComponents, plan: ExecutionPlan, runtime: LaunchRuntime, pooled: list[str]
    ) -> list[str]:
        """Phases whose hooks are all declared quick, and that need no particular host."""
        environment, benchmark, harness = components.environment, components.benchmark, components.harness
        quick: list[Phase] = []
        anywhere = self._services.settings.private or not environment.capabilities.host_bound
        # With a rate an opening may have to wait for its turn, which is not quick.
        rated = runtime.env_open_qps.get(plan.environment.id, 0.0) > 0
        if anywhere and not rated and not pooled and "open" in environment.quick_hooks:
            quick += [Phase.OPEN_ENVIRONMENT, Phase.EVALUATE_ENVIRONMENT]
        if anywhere and "close" in environment.quick_hooks:
            quick.append(Phase.CLOSE_ENVIRONMENT)
        attach = "attach" in environment.quick_hooks
        if attach and "prepare_task" in benchmark.quick_hooks:
            quick.append(Phase.PREPARE_TASK)
        session_hooks = {"start_session", "execute_task", "collect_result"}
        if attach and harness and plan.harness_plan.quick and session_hooks <= harness.quick_hooks:
            quick.append(Phase.RUN_HARNESS)
        if attach and "run_task" in benchmark.quick_hooks:
            quick.append(Phase.RUN_TASK)
        if "evaluate" in benchmark.quick_hooks and not transfers(plan):  # files to verify and restore
            quick.append(Phase.EVALUATE)
        return [phase.value for phase in quick]


def _with_waiting(budget: float | None, beside: float = 0.0) -> float | None:
    """The outermost limit of a phase, which must not come before the budget that it guards."""
    return None if budget is None else budget + beside + MAX_UNCHARGED_SECONDS


def collects_artifacts(components: RequestComponents, plan: ExecutionPlan) -> bool:
    """Whether a phase of its own collects, once the agent has ended."""
    return bool(plan.artifacts or plan.artifact_collect) or overrides_collection(components.benchmark)


def summarize(plan: ExecutionPlan) -> PlanSummary:
    """The part of a plan that run_info.json and the progress file tell."""
    evaluation = plan.evaluation_environment
    return PlanSummary(
        environment=_environment_summary(plan.environment),
        evaluation_environment=_environment_summary(evaluation) if evaluation else None,
        evaluation_environment_mode=plan.evaluation_environment_mode,
        run_network_policy=plan.run_network_policy,
        verifier_network_policy=plan.evaluation_network_policy,
        applied_recipes=plan.applied_recipes,
    )


def _environment_summary(spec: EnvironmentSpec) -> dict[str, object]:
    from ..contracts.network import NetworkPolicy

    policy = spec.network_policy or NetworkPolicy()
    return {"id": spec.id, "network_policy": policy.model_dump(mode="json")}
