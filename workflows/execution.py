"""One execution of an attempt: its phases in their order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from ..contracts.activities import (
        COLLECT_ARTIFACTS,
        EVALUATE,
        HOLD_ENVIRONMENT,
        PREPARE_TASK,
        QUICK_EXECUTION,
        RUN_HARNESS,
        RUN_TASK,
        AttemptPlan,
        ExecutionRef,
        OpenedEnvironment,
        PhaseInput,
        QuickExecution,
        environment_id,
    )
    from ..contracts.environment import EnvironmentHandle
    from ..contracts.issues import Issue, IssueCode, Severity
    from ..contracts.phases import Phase
    from ..contracts.request import EvaluationMode
    from ..contracts.result import TaskStatus
    from ..contracts.retries import RetryScope, blocking_issue
    from .calls import (
        QUICK_HOOK_TIMEOUT,
        PhaseFailed,
        being_evicted,
        hook,
        quick_step,
        tried_too_often,
        until_cancelled,
    )
    from .grace import Grace
    from .hosts import Hosts
    from .phase_runner import SHOWN, PhaseRunner

_HELD_PATCH = "a refused judge keeps its environment"
_STEPS_PATCH = "a quick execution that ends its worker goes on phase by phase"


class Execution(PhaseRunner):
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
        super().__init__(
            ref, plan, heartbeat_timeout=heartbeat_timeout, grace=grace, enter=enter, hosts=hosts
        )
        self.lost_while_held = False
        """True when the environment was gone when its judge was to try again."""
        self.has_result = False
        """True when there is something to judge, be it of this execution or handed on to it."""
        self.in_one_step = False
        """True while one activity executes everything, so that nobody outside knows in which phase it is."""
        self._unblocked = unblocked

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
                    async with self._held(opened):  # the next step goes on in it
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
        async with self._held(opened):
            mended = await self._unblocked(refused)
        return mended

    @contextlib.asynccontextmanager
    async def _held(self, opened: OpenedEnvironment) -> AsyncIterator[None]:
        """An activity keeps the environment alive while nothing else is done in it. No ``finally``, as ever."""
        holding = until_cancelled(
            HOLD_ENVIRONMENT,
            PhaseInput(ref=self._ref, handle=opened.handle),
            summary=f"hold {opened.handle.id}"[:SHOWN],
            heartbeat_timeout=self._heartbeat_timeout,
            task_queue=opened.task_queue,
        )
        try:
            yield
        except (PhaseFailed, FailureError, asyncio.CancelledError):
            if not being_evicted():
                holding.cancel()
            raise
        holding.cancel()
        await workflow.wait([holding])

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
