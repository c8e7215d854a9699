"""Open and close environments."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any

from temporalio import activity

from ..contracts.activities import (
    CLOSE_ENVIRONMENT,
    OPEN_ENVIRONMENT,
    CloseEnvironmentInput,
    OpenedEnvironment,
    OpenEnvironmentInput,
    PhaseOutcome,
    environment_id,
)
from ..contracts.environment import Environment, EnvironmentSession, OpenRequest
from ..contracts.issues import IssueCode, Severity
from ..contracts.network import NetworkPolicy
from ..contracts.phases import ISSUE_PHASES, Phase
from .boundary import activity_boundary, failed
from .classification import make_issue
from .phase import PhaseScope, phase_scope
from .phase_limit import PhaseLimit
from .services import Services, resolve_variables
from .store.kept import note_kept

EXPIRY_SECONDS = 24 * 3600.0
"""The label after which a sandbox that nobody renews may be removed."""


class Environments:
    """Opening and closing are safe to run twice: both work on an id derived from the execution."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=OPEN_ENVIRONMENT.name)
    @activity_boundary
    async def open_environment(self, input: OpenEnvironmentInput) -> OpenedEnvironment:
        """Create the sandbox, or find the one that an earlier try created."""
        phase = Phase.EVALUATE_ENVIRONMENT if input.for_evaluation else Phase.OPEN_ENVIRONMENT
        async with phase_scope(self._services, input.ref, phase) as scope:
            await scope.enter(phase)
            spec = scope.plan.evaluation_environment if input.for_evaluation else scope.plan.environment
            spec = spec or scope.plan.environment
            environment = scope.environment(spec)
            rates = scope.store.request_state().runtime.env_open_qps
            await self._services.open_rate.wait(spec.id, rates.get(spec.id, 0.0))
            with scope.hooks():
                baseline = spec.network_policy or NetworkPolicy()
                policy = baseline if input.for_evaluation else scope.opening_policy()
                request = OpenRequest(
                    environment_id=environment_id(input.ref, for_evaluation=input.for_evaluation),
                    spec=spec,
                    network_policy=policy,
                    env_variables=resolve_variables(spec.env_variables),
                    labels=labels_of(scope),
                )
                session = await _opened(scope, environment, request)
            self._services.environments_used[spec.id] = environment
            self._services.metrics.environment_opened(spec.id)
            if scope.plan.keep_environment:
                note_kept(input.ref, session.handle)
            bound = environment.capabilities.host_bound and not self._services.settings.private
            return OpenedEnvironment(
                handle=session.handle, task_queue=self._services.settings.host_queue if bound else None
            )

    @activity.defn(name=CLOSE_ENVIRONMENT.name)
    @activity_boundary
    async def close_environment(self, input: CloseEnvironmentInput) -> PhaseOutcome:
        """Remove the sandbox. A failure is a WARNING, carried to the workflow like any issue."""
        async with phase_scope(self._services, input.ref, Phase.CLOSE_ENVIRONMENT) as scope:
            spec = scope.plan.environment
            evaluation = scope.plan.evaluation_environment
            if evaluation is not None and input.handle.id.endswith("-v"):
                spec = evaluation
            grace = max(scope.store.request_state().runtime.cleanup_grace_seconds, 5.0)
            limit = asyncio.timeout(grace)
            with scope.hooks(), self._counted(spec.id):
                try:
                    async with limit:
                        await scope.call(scope.environment(spec).close, input.handle)
                except TimeoutError:
                    if not limit.expired():
                        raise
                    message = f"not closed within {grace:g} s (cleanup_grace_seconds); it may still be there"
                    raise TimeoutError(message) from None
            return PhaseOutcome(issues=scope.context.issues)

    @contextlib.contextmanager
    def _counted(self, provider: str) -> Iterator[None]:
        worked = False
        try:
            yield
            worked = True
        finally:
            self._services.metrics.environment_closed(provider, worked=worked)


async def _opened(
    scope: PhaseScope, environment: Environment[Any], request: OpenRequest
) -> EnvironmentSession:
    """The sandbox, within its build budget; what a late one left is removed by its id."""
    seconds = request.spec.setup.build_timeout_seconds
    limit = PhaseLimit(scope, seconds)
    try:
        async with limit:
            return await scope.call(environment.open, request)
    except TimeoutError:
        if not (limit.expired or limit.issue):
            raise
        message = f"the build budget of {seconds or 0:g} s (setup.build_timeout_seconds) is used up"
        issue = limit.issue or make_issue(
            Severity.FATAL, ISSUE_PHASES[scope.phase], IssueCode.ENVIRONMENT_OPEN_FAILED, message
        )
        raise failed(issue, scope.context.issues) from None


def labels_of(scope: PhaseScope) -> dict[str, str]:
    """Who owns a sandbox, for listing, and for whoever cleans up."""
    state = scope.store.request_state()
    return {
        "launch": state.launch_id,
        "request": state.request_key,
        "task": scope.ref.task_id,
        "attempt": str(scope.ref.attempt),
        "execution": str(scope.ref.execution),
        "expiry": str(int(time.time() + EXPIRY_SECONDS)),
    }
