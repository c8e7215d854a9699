"""Open and close environments."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from typing import Any

from temporalio import activity
from temporalio.service import RPCError

from ..contracts.activities import (
    CLOSE_ENVIRONMENT,
    OPEN_ENVIRONMENT,
    CloseEnvironmentInput,
    OpenedEnvironment,
    OpenEnvironmentInput,
    PhaseOutcome,
    environment_id,
)
from ..contracts.environment import Environment, EnvironmentHandle, EnvironmentSession, OpenRequest
from ..contracts.environment_labels import LEASE_SECONDS, EnvironmentOwner
from ..contracts.errors import StageFailure
from ..contracts.issues import IssueCode, IssuePhase, Severity
from ..contracts.network import NetworkPolicy
from ..contracts.phases import ISSUE_PHASES, Phase
from ..contracts.pool import LeaseRequest
from ..contracts.request import EnvironmentSpec
from .boundary import activity_boundary, failed
from .classification import describe, make_issue
from .hook_calls import HOOK_FAILURES, raise_if_cancelled
from .host import host_name
from .phase import PhaseScope, phase_scope
from .phase_limit import PhaseLimit
from .redaction import REDACTOR
from .service_logs import keep_service_logs
from .services import Services, resolve_variables
from .store.kept import note_kept
from .store.ledger import LedgerEntry

_MOST_OPENINGS = 10
"""Tries to open an environment after there was a place for it, as of any other phase."""
_LONGEST_TURN_SECONDS = 60.0
"""For a turn that lies too far ahead, because the clocks of two machines differ."""
_LONGEST_OPENING_SECONDS = 7200.0
"""For an opening with a place of a pool and no budget of its own. The activity's limit is for the waiting, and as long
as a month: a provider that hangs would keep the place from everybody else until then."""


class Environments:
    """Opening and closing are safe to run twice: both work on an id derived from the execution."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=OPEN_ENVIRONMENT.name)
    @activity_boundary
    async def open_environment(self, input: OpenEnvironmentInput) -> OpenedEnvironment:
        """Create the sandbox, or find the one that an earlier try created."""
        phase = Phase.EVALUATE_ENVIRONMENT if input.for_evaluation else Phase.OPEN_ENVIRONMENT
        turn = await self._take_place(input, phase) if input.pooled else None
        async with phase_scope(self._services, input.ref, phase, quick=input.quick) as scope:
            if not input.pooled:
                await scope.enter(phase)
            spec = _spec_of(scope, input)
            environment = scope.environment(spec)
            await self._wait_for_turn(scope, spec, turn)
            found = environment_id(input.ref, for_evaluation=input.for_evaluation)
            labels = owner_of(scope, await self._services.namespace()).labels()
            entry = self._note_intent(scope, environment, found, spec, labels)
            with scope.hooks():
                baseline = spec.network_policy or NetworkPolicy()
                policy = baseline if input.for_evaluation else scope.opening_policy()
                request = OpenRequest(
                    environment_id=found,
                    spec=spec,
                    network_policy=policy,
                    env_variables=resolve_variables(spec.env_variables),
                    labels=labels,
                )
                session = await _opened(scope, environment, request, pooled=input.pooled)
            scope.store.environments.note_handle(entry, session.handle)
            self._services.environments_used[spec.id] = environment
            self._services.metrics.environment_opened(spec.id)
            if scope.plan.keep_environment:
                note_kept(input.ref, session.handle)
            bound = environment.capabilities.host_bound and not self._services.settings.private
            return OpenedEnvironment(
                handle=session.handle, task_queue=self._services.settings.host_queue if bound else None
            )

    async def _take_place(self, input: OpenEnvironmentInput, phase: Phase) -> float | None:
        """Wait for a place at the provider; the time from which on it may be used, ``None`` when the pool is gone.

        A launch with a rate of its own starts the pool where several processes must keep to that rate.
        """
        async with phase_scope(self._services, input.ref, phase, waits=True) as scope:
            await scope.enter(phase)
            provider, state = _spec_of(scope, input).id, scope.store.request_state()
            rate = state.runtime.env_open_qps.get(provider, 0.0)
            request = LeaseRequest(
                workflow_id=activity.info().workflow_id or "",
                launch=state.launch_id,
                environment_id=environment_id(input.ref, for_evaluation=input.for_evaluation),
                begun=input.for_evaluation or input.ref.execution > 1,
                open_per_second=rate,
            )
            shared = rate > 0 and not self._services.settings.private
            async with scope.endable():
                grant = await self._services.places.take(provider, request, start=shared)
            if scope.execution.count_try(f"{phase.value}-with-a-place") > _MOST_OPENINGS:
                message = f"{phase}: its worker did not live to see the end of it, {_MOST_OPENINGS} times"
                raise StageFailure.fatal(ISSUE_PHASES[phase], IssueCode.WORKER_LOST, message)
        return None if grant is None else grant.not_before

    async def _wait_for_turn(
        self, scope: PhaseScope, spec: EnvironmentSpec, not_before: float | None
    ) -> None:
        """The turn that a pool gave, a few seconds ahead at most; without a pool, this process's own rate."""
        if not_before is not None:
            await asyncio.sleep(min(max(0.0, not_before - time.time()), _LONGEST_TURN_SECONDS))
            return
        rates = scope.store.request_state().runtime.env_open_qps
        await self._services.open_rate.wait(spec.id, rates.get(spec.id, 0.0))

    def _note_intent(
        self,
        scope: PhaseScope,
        environment: Environment[Any],
        environment_id: str,
        spec: EnvironmentSpec,
        labels: dict[str, str],
    ) -> LedgerEntry:
        """Before anything exists: whoever finds it later knows whose it is, and how to remove it."""
        entry = LedgerEntry(
            environment_id=environment_id,
            provider=spec.id,
            params=spec.params,
            labels=labels,
            host=host_name() if environment.capabilities.host_bound else "",
            opened_at=time.time(),
        )
        scope.store.environments.add(entry)
        self._services.open_runs.note(scope.ref.run_dir)
        return entry

    @activity.defn(name=CLOSE_ENVIRONMENT.name)
    @activity_boundary
    async def close_environment(self, input: CloseEnvironmentInput) -> PhaseOutcome:
        """Remove the sandbox. A failure is a WARNING, carried to the workflow like any issue.

        A handle without a provider is of an attempt that was stopped before it could say more than an id.
        """
        if not input.handle.provider:
            plan = self._services.store(input.ref.run_dir).execution(input.ref).find_plan()
            if plan is None:
                return PhaseOutcome()  # nothing is opened without a plan
            handle = input.handle.model_copy(update={"provider": plan.environment.id})
            input = input.model_copy(update={"handle": handle})
        async with phase_scope(self._services, input.ref, Phase.CLOSE_ENVIRONMENT) as scope:
            spec = scope.plan.environment
            evaluation = scope.plan.evaluation_environment
            if evaluation is not None and input.handle.id.endswith("-v"):
                spec = evaluation
            grace = max(scope.store.request_state().runtime.cleanup_grace_seconds, 5.0)
            with scope.hooks(), self._counted(spec.id):
                if spec.setup.compose_file is not None:
                    keeping = keep_service_logs(scope, scope.environment(spec), input.handle, grace)
                    await scope.warn_on_failure(keeping, IssuePhase.CLEANUP, IssueCode.CLEANUP_FAILED)
                try:
                    await _closed(scope, scope.environment(spec), input.handle, grace)
                except HOOK_FAILURES as error:
                    raise_if_cancelled(error)
                    reason = REDACTOR.text(describe(error))
                    scope.store.environments.note_failed_removal(input.handle.id, reason)
                    raise
            scope.store.environments.remove(input.handle.id)
            if input.pool:
                await self._give_back(scope, input.pool, input.handle.id)
            return PhaseOutcome(issues=scope.context.issues)

    async def _give_back(self, scope: PhaseScope, pool: str, environment_id: str) -> None:
        """Its place is free now. A pool that does not hear of it finds out when the attempt is over."""
        workflow_id = activity.info().workflow_id or ""
        try:
            await self._services.places.give_back(pool, workflow_id, environment_id)
        except RPCError as error:
            scope.context.log.warning("the pool of %s was not told: %s", pool, error)

    @contextlib.contextmanager
    def _counted(self, provider: str) -> Iterator[None]:
        worked = False
        try:
            yield
            worked = True
        finally:
            self._services.metrics.environment_closed(provider, worked=worked)


def _spec_of(scope: PhaseScope, input: OpenEnvironmentInput) -> EnvironmentSpec:
    own = scope.plan.evaluation_environment if input.for_evaluation else None
    return own or scope.plan.environment


async def _opened(
    scope: PhaseScope, environment: Environment[Any], request: OpenRequest, *, pooled: bool
) -> EnvironmentSession:
    """The sandbox, within its build budget; what a late one left is removed by its id."""
    budget = request.spec.setup.build_timeout_seconds
    limit = PhaseLimit(scope, _LONGEST_OPENING_SECONDS if budget is None and pooled else budget)
    try:
        async with limit:
            return await scope.call(environment.open, request)
    except TimeoutError:
        if not (limit.expired or limit.issue):
            raise
        message = (
            f"not open within {_LONGEST_OPENING_SECONDS:g} s; setup.build_timeout_seconds gives it more time or less"
            if budget is None
            else f"the build budget of {budget:g} s (setup.build_timeout_seconds) is used up"
        )
        spent = make_issue(
            Severity.FATAL, ISSUE_PHASES[scope.phase], IssueCode.ENVIRONMENT_OPEN_FAILED, message
        )
        issue = limit.issue or limit.overdue or spent
        raise failed(issue, scope.context.issues) from None


async def _closed(
    scope: PhaseScope, environment: Environment[Any], handle: EnvironmentHandle, grace: float
) -> None:
    """Remove it within ``grace`` seconds. Raises what the provider raises, and ``TimeoutError``."""
    limit = asyncio.timeout(grace)
    try:
        async with limit:
            await scope.call(environment.close, handle)
    except TimeoutError:
        if not limit.expired():
            raise
        message = (
            f"not closed within {grace:g} s (cleanup_grace_seconds); it is tried again by a later worker"
        )
        raise TimeoutError(message) from None


def owner_of(scope: PhaseScope, namespace: str) -> EnvironmentOwner:
    """Who owns a sandbox, for listing, and for whoever cleans up."""
    state = scope.store.request_state()
    return EnvironmentOwner(
        launch=state.launch_id,
        request=state.request_key,
        task=scope.ref.task_id,
        attempt=scope.ref.attempt,
        execution=scope.ref.execution,
        generation=scope.ref.generation,
        expiry=time.time() + LEASE_SECONDS,
        keep=scope.plan.keep_environment,
        temporal=namespace,
    )
