"""An execution whose phases are all quick, in one local activity instead of five.

The phases are those of the other activities, in the order of ``workflows/execution.py``; only what
lies between them is left out: five round trips through the workflow.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from temporalio import activity
from temporalio.exceptions import ApplicationError

from ..contracts.activities import (
    QUICK_EXECUTION,
    CloseEnvironmentInput,
    ExecutionRef,
    OpenEnvironmentInput,
    PhaseInput,
    PhaseOutcome,
    QuickExecution,
    environment_id,
)
from ..contracts.environment import EnvironmentHandle
from ..contracts.issues import Issue, Severity
from ..contracts.phases import Phase
from ..contracts.request import EvaluationMode
from ..contracts.result import TaskStatus
from .boundary import activity_boundary
from .environments import Environments
from .evaluate import Evaluate
from .phase import settled_together
from .phase_limit import overdue_issue
from .prepare_task import PrepareTask
from .run_phase import RunPhase
from .services import Services
from .tries import count_quick_try

STEP = "execution"
LIMIT_SECONDS = 90.0
"""For all phases together, beside the limit of each. The engine's own limits come later, and end in another try."""


@dataclass
class Steps:
    """How far an execution is, and what it came to so far."""

    done: QuickExecution = field(default_factory=QuickExecution)
    phase: Phase = Phase.OPEN_ENVIRONMENT


class QuickExecutions:
    """Running it twice is safe, because each of its phases is: components declare them repeatable."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._environments = Environments(services)
        self._prepare = PrepareTask(services)
        self._run = RunPhase(services)
        self._evaluate = Evaluate(services)

    @activity.defn(name=QUICK_EXECUTION.name)
    @activity_boundary
    async def quick_execution(self, input: ExecutionRef) -> QuickExecution:
        """Open, prepare, run, evaluate and close; an issue that ends a phase is part of the answer."""
        count_quick_try(self._services.store(input.run_dir).execution(input), STEP)
        return await self.first_execution(input)

    @activity_boundary
    async def first_execution(self, input: ExecutionRef) -> QuickExecution:
        """The same without counting the try, for an attempt that has just been planned for the first time."""
        steps = Steps()
        limit = asyncio.timeout(LIMIT_SECONDS)
        try:
            async with settled_together(input.run_dir), limit:
                await self._execute(input, steps)
        except TimeoutError:
            if not limit.expired():
                raise
            _add(steps.done, overdue_issue(steps.phase, LIMIT_SECONDS))
        return steps.done

    async def _execute(self, input: ExecutionRef, steps: Steps) -> None:
        plan = self._services.store(input.run_dir).execution(input).load_plan()
        try:
            evaluated_inside = plan.evaluation_environment_mode is EvaluationMode.REUSE
            await self._with_environment(input, steps, evaluate=evaluated_inside)
            if not evaluated_inside and _scorable(steps.done):
                await self._judge(PhaseInput(ref=input, quick=True), steps)
        except ApplicationError as error:
            for issue in issues_of(error):
                _add(steps.done, issue)

    async def _judge(self, phase: PhaseInput, steps: Steps) -> None:
        steps.phase = Phase.EVALUATE
        _note(steps.done, await self._evaluate.evaluate(phase))

    async def _with_environment(self, ref: ExecutionRef, steps: Steps, *, evaluate: bool) -> None:
        plan = self._services.store(ref.run_dir).execution(ref).load_plan()
        # What a failed opening left is removed by its id, and the provider wants to be named.
        handle = EnvironmentHandle(provider=plan.environment.id, id=environment_id(ref))
        try:
            opening = OpenEnvironmentInput(ref=ref, quick=True)
            handle = (await self._environments.open_environment(opening)).handle
            phase = PhaseInput(ref=ref, handle=handle, quick=True)
            steps.phase = Phase.PREPARE_TASK
            _note(steps.done, await self._prepare.prepare_task(phase))
            await self._work(phase, steps)
            if evaluate and _scorable(steps.done):
                await self._judge(phase, steps)
        finally:
            # Shielded: a cancelled attempt leaves no environment behind.
            await asyncio.shield(asyncio.ensure_future(self._close(ref, handle, steps.done)))

    async def _work(self, phase: PhaseInput, steps: Steps) -> None:
        harness_free = self._services.components(phase.ref.run_dir).harness is None
        steps.phase = Phase.RUN_TASK if harness_free else Phase.RUN_HARNESS
        outcome = await (self._run.run_task(phase) if harness_free else self._run.run_harness(phase))
        _note(steps.done, outcome)
        steps.done.has_result = outcome.status != TaskStatus.SKIPPED

    async def _close(self, ref: ExecutionRef, handle: EnvironmentHandle, done: QuickExecution) -> None:
        try:
            _note(
                done,
                await self._environments.close_environment(CloseEnvironmentInput(ref=ref, handle=handle)),
            )
        except ApplicationError as error:
            _add(done, issues_of(error)[0].model_copy(update={"severity": Severity.WARNING}))


def _scorable(done: QuickExecution) -> bool:
    return done.has_result and not any(issue.severity is Severity.FATAL for issue in done.issues)


def _note(done: QuickExecution, outcome: PhaseOutcome) -> None:
    for issue in outcome.issues:
        _add(done, issue)


def _add(done: QuickExecution, issue: Issue) -> None:
    if issue not in done.issues:
        done.issues.append(issue)


def issues_of(error: ApplicationError) -> list[Issue]:
    """What a phase ended with, the worst first; anything else is raised again, as a fault of ours."""
    try:
        issue, *beside = [Issue.model_validate(detail) for detail in error.details]
    except ValueError:  # none, or what is no issue
        raise error from None
    return [issue, *beside]
