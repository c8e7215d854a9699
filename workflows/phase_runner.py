"""One phase of an execution at a time, and its environments, closed whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from ..contracts.activities import (
        CLOSE_ENVIRONMENT,
        OPEN_ENVIRONMENT,
        ActivityStub,
        AttemptPlan,
        CloseEnvironmentInput,
        ExecutionRef,
        OpenedEnvironment,
        OpenEnvironmentInput,
        PhaseInput,
        PhaseOutcome,
        environment_id,
    )
    from ..contracts.environment import EnvironmentHandle
    from ..contracts.issues import Issue, Severity
    from ..contracts.phases import Phase
    from ..contracts.workflows import places_queue
    from .calls import (
        BOOKKEEPING,
        CLEANUP,
        HOOK,
        LONGEST_PHASE,
        QUICK_HOOK_TIMEOUT,
        InputT,
        OutputT,
        PhaseFailed,
        being_evicted,
        hook,
        in_background,
        quick_hook,
    )
    from .grace import Grace
    from .hosts import HostLost, Hosts

_OPEN_LIMIT = timedelta(hours=2)
_SLACK = 300.0
"""Seconds added to a budget before Temporal ends the activity; the activity itself is exact."""
_CLOSE_SLACK = timedelta(seconds=10)
SHOWN = 190
"""Characters of a text that the Temporal UI shows in one line."""


class PhaseRunner:
    """Runs phases for whoever decides about their order; what went wrong is in :attr:`issues`."""

    def __init__(
        self,
        ref: ExecutionRef,
        plan: AttemptPlan,
        *,
        heartbeat_timeout: timedelta,
        grace: Grace,
        enter: Callable[[Phase], None],
        hosts: Hosts,
    ) -> None:
        """``enter`` is told of each phase that begins."""
        self.issues: list[Issue] = []
        self._ref = ref
        self._plan = plan
        self._careful = False
        """True when quick phases, too, are activities of their own: together they took their worker along."""
        self._heartbeat_timeout = heartbeat_timeout
        self._grace = grace
        self._enter = enter
        self._hosts = hosts

    @property
    def step(self) -> int:
        """The step of its task that runs, from 1; 0 outside of steps."""
        return self._ref.step

    @contextlib.asynccontextmanager
    async def _environment(self, *, for_evaluation: bool = False) -> AsyncIterator[OpenedEnvironment]:
        """An environment that is closed whatever happens, unless it shall be kept.

        No ``finally``: that would also run when Python throws a dropped workflow away.
        """
        opened = await self._open(for_evaluation=for_evaluation)
        try:
            yield opened
        except HostLost as lost:
            # On that host nobody can close it but its next worker, which will.
            if lost.queue != opened.task_queue and not self._plan.keep_environment:
                await self._close(opened)
            raise
        except (PhaseFailed, FailureError, asyncio.CancelledError):
            if not self._plan.keep_environment:
                await self._close(opened)
            raise
        if not self._plan.keep_environment:
            await self._close(opened)

    async def _open(self, *, for_evaluation: bool) -> OpenedEnvironment:
        """Open an environment; what a failed or cancelled opening left behind is removed by its id."""
        name = self._provider(for_evaluation=for_evaluation)
        try:
            return await self._open_unguarded(name, for_evaluation)
        except (PhaseFailed, FailureError, asyncio.CancelledError):
            found = environment_id(self._ref, for_evaluation=for_evaluation)
            await self._close(OpenedEnvironment(handle=EnvironmentHandle(provider=name, id=found)))
            raise

    def _provider(self, *, for_evaluation: bool) -> str:
        return (self._plan.evaluation_environment if for_evaluation else None) or self._plan.environment

    async def _open_unguarded(self, name: str, for_evaluation: bool) -> OpenedEnvironment:
        """One of a provider with a pool waits for its place in the activity, on a queue with room for many."""
        phase = Phase.EVALUATE_ENVIRONMENT if for_evaluation else Phase.OPEN_ENVIRONMENT
        pooled = name in self._plan.pooled
        quick = phase in self._plan.quick_phases
        argument = OpenEnvironmentInput(
            ref=self._ref, for_evaluation=for_evaluation, pooled=pooled, quick=quick
        )
        self._enter(phase)
        if quick and not self._careful:
            return await self._quickly(OPEN_ENVIRONMENT, argument, phase)
        return await hook(
            OPEN_ENVIRONMENT,
            argument,
            phase,
            summary=f"open {name}",
            heartbeat_timeout=self._heartbeat_timeout,
            patience=self._grace.patience,
            limit=LONGEST_PHASE if pooled else _OPEN_LIMIT,
            # Workers come and go while it waits; the activity counts the tries that got as far as an opening.
            policy=BOOKKEEPING if pooled else HOOK,
            task_queue=places_queue(workflow.info().task_queue) if pooled else None,
        )

    async def _phase(
        self,
        phase: Phase,
        stub: ActivityStub[PhaseInput, PhaseOutcome],
        opened: OpenedEnvironment | None,
        budget: float | None = None,
    ) -> PhaseOutcome:
        """Run one phase and take over the issues it reports."""
        self._enter(phase)
        quick = phase in self._plan.quick_phases
        argument = PhaseInput(ref=self._ref, handle=opened.handle if opened else None, quick=quick)
        queue = opened.task_queue if opened else None
        limit = None if budget is None else timedelta(seconds=budget + _SLACK)
        patience = self._grace.patience
        summary = f"{phase} {self._ref.task_id}{f' step {self.step}' if self.step else ''}"
        if quick and queue is None and not self._careful:
            outcome = await self._quickly(stub, argument, phase, limit or QUICK_HOOK_TIMEOUT)
        else:
            outcome = await self._hosts.run(
                queue,
                phase,
                lambda: hook(
                    stub,
                    argument,
                    phase,
                    summary=summary[:SHOWN],
                    heartbeat_timeout=self._heartbeat_timeout,
                    patience=patience,
                    limit=limit or LONGEST_PHASE,
                    task_queue=queue,
                    waiting_limit=self._hosts.patience(queue),
                ),
            )
        # The evaluation repeats what the run reported: the scored result holds all of it.
        self.issues.extend(issue for issue in outcome.issues if issue not in self.issues)
        return outcome

    async def _quickly(
        self,
        stub: ActivityStub[InputT, OutputT],
        argument: InputT,
        phase: Phase,
        limit: timedelta = QUICK_HOOK_TIMEOUT,
    ) -> OutputT:
        return await quick_hook(
            stub,
            argument,
            phase,
            heartbeat_timeout=self._heartbeat_timeout,
            patience=self._grace.patience,
            limit=limit,
        )

    async def _close(self, opened: OpenedEnvironment) -> None:
        """Close whatever happened before; a failure is a WARNING, and cancellation waits for it."""
        closing = in_background(self._close_unshielded(opened))
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            if being_evicted():
                raise
            await workflow.wait([closing], timeout=self._grace.left.total_seconds())
            raise

    async def _close_unshielded(self, opened: OpenedEnvironment) -> None:
        phase = Phase.CLOSE_ENVIRONMENT
        self._enter(phase)
        name = self._provider(for_evaluation=opened.handle.id.endswith("-v"))
        pool = name if name in self._plan.pooled else ""
        argument = CloseEnvironmentInput(ref=self._ref, handle=opened.handle, pool=pool)
        try:
            if phase in self._plan.quick_phases and opened.task_queue is None and not self._careful:
                outcome = await self._quickly(CLOSE_ENVIRONMENT, argument, phase)
            else:
                queue = opened.task_queue
                outcome = await self._hosts.run(
                    queue,
                    phase,
                    lambda: hook(
                        CLOSE_ENVIRONMENT,
                        argument,
                        phase,
                        summary=f"close {opened.handle.id}"[:SHOWN],
                        heartbeat_timeout=self._heartbeat_timeout,
                        patience=self._grace.patience,
                        # The activity keeps to the grace itself and says so; this is for one that cannot.
                        limit=self._grace.whole + _CLOSE_SLACK,
                        # Not while all is well: a worker that is away for a night closes it in the morning.
                        total_limit=self._grace.left if self._grace.running else None,
                        policy=CLEANUP,
                        task_queue=queue,
                        # Nor is a host asked for during the grace, which is over by the time it could answer.
                        waiting_limit=None if self._grace.running else self._hosts.patience(queue),
                    ),
                )
            self.issues.extend(outcome.issues)
        except PhaseFailed as failure:
            self.issues.append(failure.issue.model_copy(update={"severity": Severity.WARNING}))
