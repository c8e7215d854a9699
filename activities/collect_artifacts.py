"""Collect what the agent left, while its environment lives."""

from __future__ import annotations

from temporalio import activity

from ..contracts.activities import COLLECT_ARTIFACTS, PhaseInput, PhaseOutcome
from ..contracts.phases import Phase
from .boundary import activity_boundary
from .phase import call_hook, phase_scope
from .run_phase import outcome_of
from .services import Services


class CollectArtifacts:
    """Running it twice is safe: the result is replaced, and agents are gone by then."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=COLLECT_ARTIFACTS.name)
    @activity_boundary
    async def collect_artifacts(self, input: PhaseInput) -> PhaseOutcome:
        """Let the benchmark read what it wants from the environment."""
        assert input.handle is not None
        async with phase_scope(self._services, input.ref, Phase.COLLECT_ARTIFACTS) as scope:
            await scope.enter(Phase.COLLECT_ARTIFACTS)
            with scope.hooks():
                env = await scope.attach(input.handle)
                result = await call_hook(
                    scope.components.benchmark.collect_artifacts,
                    scope.task,
                    env,
                    scope.execution.load_result(),
                    scope.components.request,
                    scope.plan,
                    scope.context,
                )
            result = result.with_issues(scope.context.issues)
            scope.execution.save_result(result)
            return outcome_of(result)
