"""Let the benchmark prepare a task in its environment."""

from __future__ import annotations

from temporalio import activity

from ..contracts.activities import PREPARE_TASK, PhaseInput, PhaseOutcome
from ..contracts.environment import EnvironmentSession
from ..contracts.phases import Phase
from ..contracts.task import PreparedTask
from .boundary import activity_boundary
from .phase import PhaseScope, phase_scope
from .results import of_type
from .services import Services


async def reset_policy(scope: PhaseScope, env: EnvironmentSession) -> None:
    """Back from that of the evaluation of the step before; a try before this one may have done so already."""
    if scope.environment(scope.plan.environment).capabilities.switches_network:
        await env.set_network_policy(scope.opening_policy())


class PrepareTask:
    """Running it twice is safe: benchmarks must prepare idempotently, and the last one counts."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=PREPARE_TASK.name)
    @activity_boundary
    async def prepare_task(self, input: PhaseInput) -> PhaseOutcome:
        """Store the prepared task for the phases that follow."""
        assert input.handle is not None
        async with phase_scope(self._services, input.ref, Phase.PREPARE_TASK, quick=input.quick) as scope:
            await scope.enter(Phase.PREPARE_TASK)
            with scope.hooks():
                env = await scope.attach(input.handle)
                if input.ref.step > 1:
                    await reset_policy(scope, env)
                async with scope.endable():
                    prepared = await scope.call(
                        scope.components.benchmark.prepare_task,
                        scope.task,
                        env,
                        scope.components.request,
                        scope.plan.benchmark_plan,
                        scope.context,
                    )
                prepared = of_type(PreparedTask, prepared, "prepare_task")
            scope.execution.save_prepared(prepared)
            return PhaseOutcome(issues=scope.context.issues)
