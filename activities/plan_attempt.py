"""Plan an attempt and record the plan, before anything is opened."""

from __future__ import annotations

from temporalio import activity

from ..contracts.activities import PLAN_ATTEMPT, AttemptPlan, AttemptRef, ExecutionRef
from ..contracts.benchmark import Benchmark
from ..contracts.phases import Phase
from ..contracts.plan import ExecutionPlan
from ..contracts.records import PlanSummary
from ..contracts.request import EnvironmentSpec
from .boundary import activity_boundary
from .planner import plan_attempt
from .services import RequestComponents, Services
from .store import EventSource, run_log_scope
from .store.progress import open_progress

_COLLECT_SLACK = 60.0


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
            plan = plan_attempt(components, task, input.attempt)
            store.execution(ExecutionRef(**input.model_dump())).save_plan(plan)
            events = EventSource.of(store.request_state())
            task_id, category = task.task_id, task.category or None
            await open_progress(input.run_dir).emit(
                [
                    events.task_started(task_id, category, index=input.task_index, total=store.task_count()),
                    events.attempt_started(task_id, category, attempt=input.attempt),
                    events.phase_changed(
                        task_id, category, attempt=input.attempt, execution=1, phase=Phase.PLAN.value
                    ),
                    events.execution_plan_resolved(
                        task_id, category, attempt=input.attempt, plan=summarize(plan)
                    ),
                ]
            )
        return self._for_workflow(components, plan, store.request_state().runtime.cleanup_grace_seconds)

    def _for_workflow(self, components: RequestComponents, plan: ExecutionPlan, grace: float) -> AttemptPlan:
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
            run_timeout_seconds=None
            if budgets.run_timeout_seconds is None
            else budgets.run_timeout_seconds + budgets.harness_result_timeout_seconds,
            evaluation_timeout_seconds=budgets.evaluation_timeout_seconds,
            collect_timeout_seconds=(budgets.artifact_collect_timeout_seconds or 3600.0)
            + plan.artifact_limits.timeout_seconds
            + _COLLECT_SLACK,
            quick_phases=self._quick_phases(components),
            host_bound=components.environment.capabilities.host_bound,
            cleanup_grace_seconds=grace,
        )

    def _quick_phases(self, components: RequestComponents) -> list[str]:
        """Phases whose hooks are all declared quick, and that need no particular host."""
        environment, benchmark, harness = components.environment, components.benchmark, components.harness
        quick: list[Phase] = []
        anywhere = self._services.settings.private or not environment.capabilities.host_bound
        if anywhere and "open" in environment.quick_hooks:
            quick += [Phase.OPEN_ENVIRONMENT, Phase.EVALUATE_ENVIRONMENT]
        if anywhere and "close" in environment.quick_hooks:
            quick.append(Phase.CLOSE_ENVIRONMENT)
        attach = "attach" in environment.quick_hooks
        if attach and "prepare_task" in benchmark.quick_hooks:
            quick.append(Phase.PREPARE_TASK)
        if attach and harness and {"start_session", "execute_task", "collect_result"} <= harness.quick_hooks:
            quick.append(Phase.RUN_HARNESS)
        if attach and "run_task" in benchmark.quick_hooks:
            quick.append(Phase.RUN_TASK)
        if "evaluate" in benchmark.quick_hooks:
            quick.append(Phase.EVALUATE)
        return [phase.value for phase in quick]


def collects_artifacts(components: RequestComponents, plan: ExecutionPlan) -> bool:
    """Whether a phase of its own collects, once the agent has ended."""
    declared = bool(plan.artifacts or plan.artifact_collect)
    return declared or type(components.benchmark).collect_artifacts is not Benchmark.collect_artifacts


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
