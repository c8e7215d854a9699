"""Collect what the agent left, while its environment lives."""

from __future__ import annotations

from typing import Any

from temporalio import activity

from ..contracts.activities import COLLECT_ARTIFACTS, PhaseInput, PhaseOutcome
from ..contracts.benchmark import Benchmark, overrides_collection
from ..contracts.environment import EnvironmentSession
from ..contracts.errors import StageFailure
from ..contracts.issues import Severity
from ..contracts.phases import Phase
from ..contracts.result import RunResult
from .artifacts import ArtifactCollection, with_manifest
from .boundary import activity_boundary
from .phase import PhaseScope, phase_scope
from .results import checked_result, with_ours
from .reuse import checkpoint_evaluation
from .run_phase import outcome_of
from .services import Services


class CollectArtifacts:
    """A second try repeats at most the command or the file in which the first one was cut off, and the
    benchmark's hook; the result is replaced."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=COLLECT_ARTIFACTS.name)
    @activity_boundary
    async def collect_artifacts(self, input: PhaseInput) -> PhaseOutcome:
        """Collect what is declared; then let the benchmark read what it wants from the environment."""
        assert input.handle is not None
        async with phase_scope(self._services, input.ref, Phase.COLLECT_ARTIFACTS) as scope:
            await scope.enter(Phase.COLLECT_ARTIFACTS)
            benchmark = scope.components.benchmark
            with scope.hooks():
                env = await scope.attach(input.handle)
                # Nothing that the agent left running may change what is being read.
                await env.end_all_processes()
                result = await _declared(scope, env)
                if overrides_collection(benchmark):
                    result = await _read_by(benchmark, scope, env, result)
            result = result.with_issues(scope.context.issues)
            await checkpoint_evaluation(scope, result)
            scope.execution.save_result(result)
            return outcome_of(result)


async def _read_by(
    benchmark: Benchmark[Any], scope: PhaseScope, env: EnvironmentSession, result: RunResult
) -> RunResult:
    """What the benchmark makes of the result. An ERROR that it raises stands beside the score."""
    try:
        collected = await scope.call(
            benchmark.collect_artifacts,
            scope.task,
            env,
            result,
            scope.components.request,
            scope.plan,
            scope.context,
        )
    except StageFailure as error:
        if error.issue.severity is Severity.FATAL:
            raise
        return result.with_issues([scope.note(error)])
    collected = checked_result(collected, "collect_artifacts", scope.execution.add_diagnostics)
    return with_ours(collected, result)


async def _declared(scope: PhaseScope, env: EnvironmentSession) -> RunResult:
    """The result with the manifest of the declared artifacts, stored even when the collection fails."""
    result = scope.execution.load_result()
    if not scope.plan.artifacts and not scope.plan.artifact_collect:
        return result
    collection = ArtifactCollection(scope, env)
    try:
        await collection.run()
    finally:
        if scope.plan.artifacts:
            result = with_manifest(result, collection.manifest)
        result = result.with_issues(scope.context.issues)
        scope.execution.save_result(result)
    return result
