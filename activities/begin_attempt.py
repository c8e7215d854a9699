"""The first step of an attempt: its plan; one that is quick as a whole is executed and saved with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

from temporalio import activity
from temporalio.exceptions import FailureError

from ..contracts.activities import (
    BEGIN_ATTEMPT,
    AttemptBegun,
    BeginAttemptInput,
    ExecutionRef,
    SaveAttemptInput,
)
from ..contracts.retries import is_settled
from .boundary import INFRASTRUCTURE, activity_boundary
from .classification import describe
from .plan_attempt import PlanAttempt
from .quick_execution import QuickExecutions
from .redaction import REDACTOR
from .save import Save
from .services import Services

T = TypeVar("T")
_log = logging.getLogger(__name__)


class BeginAttempt:
    """Running it twice is safe, because each of its parts is. One activity instead of three spares a quick
    attempt most of what it would cost its worker."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._planning = PlanAttempt(services)
        self._quick = QuickExecutions(services)
        self._saving = Save(services)

    @activity.defn(name=BEGIN_ATTEMPT.name)
    @activity_boundary
    async def begin_attempt(self, input: BeginAttemptInput) -> AttemptBegun:
        """Plan. What follows and fails is left to the workflow, which does it again under its own rules."""
        ref = ExecutionRef(**input.ref.model_dump())
        again = self._services.store(ref.run_dir).execution(ref).was_planned()
        begun = AttemptBegun(plan=await self._planning.plan_attempt(input.ref))
        plan = begun.plan
        if plan.finished or plan.resume_evaluation or not plan.quick_execution:
            return begun
        execute = self._quick.quick_execution if again else self._quick.first_execution
        try:
            done = begun.execution = await execute(ref)
            if is_settled(done.issues, plan.retry, plan.mode, has_result=done.has_result):
                argument = SaveAttemptInput(ref=ref, attempts=input.attempts, issues=done.issues)
                begun.outcome = await _uncancelled(self._saving.save_attempt(argument))
        except (FailureError, *INFRASTRUCTURE) as error:
            _log.warning("%s goes on step by step: %s", ref.task_id, REDACTOR.text(describe(error)))
        return begun


async def _uncancelled(work: Awaitable[T]) -> T:
    """What ``work`` returns, also when this is cancelled meanwhile: a scored result is not thrown away."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            continue  # saving takes no time that anybody would have to wait for
    return task.result()
