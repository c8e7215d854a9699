"""One execution of an attempt: its phases in order, and its environments closed whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from ..contracts.activities import (
        CLOSE_ENVIRONMENT,
        COLLECT_ARTIFACTS,
        EVALUATE,
        HOLD_ENVIRONMENT,
        OPEN_ENVIRONMENT,
        PREPARE_TASK,
        QUICK_EXECUTION,
        RUN_HARNESS,
        RUN_TASK,
        ActivityStub,
        AttemptPlan,
        CloseEnvironmentInput,
        ExecutionRef,
        OpenedEnvironment,
        OpenEnvironmentInput,
        PhaseInput,
        PhaseOutcome,
        QuickExecution,
        environment_id,
    )
    from ..contracts.environment import EnvironmentHandle
    from ..contracts.issues import Issue, IssueCode, Severity
    from ..contracts.phases import Phase
    from ..contracts.request import EvaluationMode
    from ..contracts.result import TaskStatus
    from ..contracts.retries import RetryScope, blocking_issue
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
        quick_step,
        tried_too_often,
        until_cancelled,
    )
    from .grace import Grace
    from .hosts import HostLost, Hosts

_OPEN_LIMIT = timedelta(hours=2)
_SLACK = 300.0
"""Seconds added to a budget before Temporal ends the activity; the activity itself is exact."""
_CLOSE_SLACK = timedelta(seconds=10)
_HELD_PATCH = "a refused judge keeps its environment"
_STEPS_PATCH = "a quick execution that ends its worker goes on phase by phase"
_SHOWN = 190
"""Characters of a text that the Temporal UI shows in one line."""


class Execution:
    """Drives the phases; what went wrong is in :attr:`issues` afterwards."""

    def __init__(
        self,
        ref: ExecutionRef,
        plan: AttemptPlan,
        *,
        heartbeat_timeout: timedelta,
        grace: Grace,
        enter: Callable[[Phase], None],
        unblocked: Callable[[Issue], Awaitable[bool]],
        hosts: Hosts,
    ) -> None:
        """``unblocked`` waits until somebody has mended the account; False when nobody ever will."""
        self.issues: list[Issue] = []
        self.lost_while_held = False
        """True when the environment was gone when its judge was to try again."""
        self.has_result = False
        """True when there is something to judge, be it of this execution or handed on to it."""
        self.in_one_step = False
        """True while one activity executes everything, so that nobody outside knows in which phase it is."""
        self._careful = False
        """True when quick phases, too, are activities of their own: together they took their worker along."""
        self._ref = ref
        self._plan = plan
        self._heartbeat_timeout = heartbeat_timeout
        self._grace = grace
        self._enter = enter
        self._unblocked = unblocked
        self._hosts = hosts

    async def run(self, scope: RetryScope) -> None:
        """Execute all, or only judge what an execution before this one left."""
        try:
            if scope is RetryScope.ATTEMPT:
                await self._run_all()
            else:
                self.has_result = True
                await self._evaluate_apart()
        except PhaseFailed as failure:
            self.issues += [failure.issue, *failure.beside]

    async def _run_all(self) -> None:
        plan = self._plan
        if plan.quick_execution and await self._run_quickly():
            return
        async with self._environment() as opened:
            if plan.steps:
                await self._run_steps(opened)
                return
            await self._run_inside(opened)
        if plan.mode is not EvaluationMode.REUSE and self._scorable():
            await self._evaluate_apart()

    async def _run_inside(self, opened: OpenedEnvironment) -> bool:
        """From preparing to what is judged there; True when no step of the task is to follow."""
        plan = self._plan
        await self._phase(Phase.PREPARE_TASK, PREPARE_TASK, opened)
        await self._run_agent(opened)
        if plan.collects_artifacts:
            await self._phase(
                Phase.COLLECT_ARTIFACTS, COLLECT_ARTIFACTS, opened, plan.collect_timeout_seconds
            )
        if plan.mode is EvaluationMode.REUSE and self._scorable():
            return await self._evaluate_inside(opened)
        return False

    async def _run_steps(self, opened: OpenedEnvironment) -> None:
        """The steps of a task in their order, each in what the one before left, until one is the last."""
        whole, plan = self._ref, self._plan
        try:
            for number, step in enumerate(plan.steps, start=1):
                self._ref = whole.model_copy(update={"step": number})
                self._plan = step
                last = await self._run_inside(opened)
                if step.mode is not EvaluationMode.REUSE and self._scorable():
                    last = await self._evaluate_apart()
                if last or not self._scorable():
                    return
        finally:  # assignments only: that is harmless when Python throws a dropped workflow away
            self._ref, self._plan = whole, plan

    async def _run_quickly(self) -> bool:
        """Every phase is quick: one local activity executes them all, the environment's closing included.

        False when that took its worker along several times. Phase by phase it shows which of them it is:
        an agent that cannot be run is another thing than a verifier that crashes.
        """
        phase = Phase.RUN_TASK if self._plan.harness_free else Phase.RUN_HARNESS
        self._enter(phase)
        self.in_one_step = True
        try:
            done = await self._one_step(phase)
        except (PhaseFailed, FailureError, asyncio.CancelledError) as error:
            self.in_one_step = False
            if tried_too_often(error):
                self._careful = True
                return False  # its environment is found again: what an agent has done there is still to be judged
            # It was stopped in the middle: remove what may be left, by its id.
            handle = EnvironmentHandle(provider=self._plan.environment, id=environment_id(self._ref))
            await self._close(OpenedEnvironment(handle=handle))
            raise
        self.in_one_step = False
        self.take(done)
        return True

    async def _one_step(self, phase: Phase) -> QuickExecution:
        patience = self._grace.patience
        try:
            return await quick_step(QUICK_EXECUTION, self._ref, phase, patience=patience)
        except FailureError as error:
            if not tried_too_often(error) or workflow.patched(_STEPS_PATCH):
                raise
        return await hook(
            QUICK_EXECUTION,
            self._ref,
            phase,
            summary=phase.value,
            heartbeat_timeout=self._heartbeat_timeout,
            patience=patience,
            limit=QUICK_HOOK_TIMEOUT,
        )

    def take(self, done: QuickExecution) -> None:
        """Take over what a quick execution came to."""
        self.has_result = done.has_result
        self.issues.extend(done.issues)

    async def _run_agent(self, opened: OpenedEnvironment) -> None:
        phase, stub = (
            (Phase.RUN_TASK, RUN_TASK) if self._plan.harness_free else (Phase.RUN_HARNESS, RUN_HARNESS)
        )
        outcome = await self._phase(phase, stub, opened, self._plan.run_timeout_seconds)
        self.has_result = outcome.status != TaskStatus.SKIPPED

    def _scorable(self) -> bool:
        """A FATAL leaves nothing to judge; an ERROR, such as the agent's timeout, does."""
        return self.has_result and not any(issue.severity is Severity.FATAL for issue in self.issues)

    async def _evaluate_inside(self, opened: OpenedEnvironment) -> bool:
        """Mode ``reuse``. A judge whose account is refused waits beside the living environment, and tries again."""
        held = False
        while True:
            try:
                return await self._evaluate(opened)
            except PhaseFailed as failure:
                self.lost_while_held = held and failure.issue.code == IssueCode.ENVIRONMENT_LOST
                refused = blocking_issue([failure.issue])
                if refused is None or not workflow.patched(_HELD_PATCH):
                    raise
                held = await self._hold(opened, refused)
                if not held:
                    raise
                self.issues += [issue for issue in failure.beside if issue not in self.issues]

    async def _hold(self, opened: OpenedEnvironment, refused: Issue) -> bool:
        """Keep the environment alive until the account is mended. False when nobody ever will."""
        holding = until_cancelled(
            HOLD_ENVIRONMENT,
            PhaseInput(ref=self._ref, handle=opened.handle),
            summary=f"hold {opened.handle.id}"[:_SHOWN],
            heartbeat_timeout=self._heartbeat_timeout,
            task_queue=opened.task_queue,
        )
        try:
            mended = await self._unblocked(refused)
        except (FailureError, asyncio.CancelledError):
            if not being_evicted():
                holding.cancel()
            raise
        holding.cancel()
        await workflow.wait([holding])
        return mended

    async def _evaluate_apart(self) -> bool:
        """Modes ``none`` and ``fresh``: judge on the worker, or in an environment of its own."""
        if self._plan.mode is EvaluationMode.NONE:
            return await self._evaluate(None)
        async with self._environment(for_evaluation=True) as opened:
            last = await self._evaluate(opened)
        return last

    async def _evaluate(self, opened: OpenedEnvironment | None) -> bool:
        """Judge; True when it was a step that no other one follows."""
        budget = self._plan.evaluation_timeout_seconds
        return (await self._phase(Phase.EVALUATE, EVALUATE, opened, budget)).ends_steps

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
        except HostLost:
            raise  # nobody can close it but the next worker of that host, which will
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
                    summary=summary[:_SHOWN],
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
                        summary=f"close {opened.handle.id}"[:_SHOWN],
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
