"""One semantic attempt of one task: plan, execute, retry, save."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from ..contracts.activities import (
        PLAN_ATTEMPT,
        SAVE_ATTEMPT,
        SAVE_RETRY,
        AttemptOutcome,
        AttemptPlan,
        ExecutionRef,
        SaveAttemptInput,
        SaveRetryInput,
    )
    from ..contracts.issues import BLOCKING_CODES, Issue, Severity
    from ..contracts.phases import Phase
    from ..contracts.pool import Grant
    from ..contracts.result import TaskStatus
    from ..contracts.retries import RetryDecision, RetryScope, decide_retry, retry_delay
    from ..contracts.search_attributes import OUTCOME
    from ..contracts.workflows import ATTEMPT_WORKFLOW, GO_SIGNAL, LEASE_SIGNAL, AttemptInput
    from .calls import PhaseFailed, as_phase_failure, being_evicted, bookkeeping, in_background
    from .execution import Execution
    from .grace import Grace
    from .leasing import Leasing
    from .parking import Parking
    from .signals import model_of

_OUTCOME_KEY = SearchAttributeKey.for_keyword(OUTCOME)


@workflow.defn(name=ATTEMPT_WORKFLOW)
class AttemptWorkflow:
    """Decides how often an attempt is executed, and keeps the last execution."""

    @workflow.init
    def __init__(self, input: AttemptInput) -> None:
        self._input = input
        self._number = 1
        self._issues: list[Issue] = []
        self._grace = Grace(input.cleanup_grace_seconds)
        self._parking = Parking()
        self._lines: list[str] = []
        self._leasing = Leasing(self._note)

    @workflow.run
    async def run(self, input: AttemptInput) -> AttemptOutcome:
        """Returns the attempt's outcome; ends as cancelled when it was, after its cleanup."""
        main = in_background(self._main(input))
        try:
            return await asyncio.shield(main)
        except asyncio.CancelledError:
            if being_evicted():
                raise
            self._grace.begin()
            main.cancel()
            return await main

    async def _main(self, input: AttemptInput) -> AttemptOutcome:
        retries = 0
        try:
            plan = await self._make_plan(input)
        except PhaseFailed as failure:
            self._issues = [failure.issue]
        else:
            # Phases that are local activities are recorded together at the end of their workflow task.
            retries = 0 if plan.finished else await self._execute_until_settled(plan)
        outcome = await self._save(retries)
        word = outcome_word(outcome)
        workflow.upsert_search_attributes([_OUTCOME_KEY.value_set(word)])
        self._note(f"**{word}** {outcome.message}")
        return outcome

    async def _make_plan(self, input: AttemptInput) -> AttemptPlan:
        self._enter(Phase.PLAN)
        try:
            return await bookkeeping(PLAN_ATTEMPT, input.ref, summary="plan")
        except FailureError as error:
            raise as_phase_failure(error, Phase.PLAN) from error

    async def _execute_until_settled(self, plan: AttemptPlan) -> int:
        """Execute, and execute again while the retry budget and the policy say so; returns the retries."""
        retries = 0
        scope = RetryScope.EVALUATE if plan.resume_evaluation else RetryScope.ATTEMPT
        while True:
            execution = self._execution(plan)
            await execution.run(scope)
            self._issues = execution.issues
            if await self._unblocked():
                # Not a retry: the endpoint refused the account, and somebody has mended that.
                scope = RetryScope.ATTEMPT
            else:
                decision = decide_retry(
                    self._issues, plan.retry, retries, plan.mode, has_result=execution.has_result
                )
                if decision is None:
                    return retries
                retries += 1
                await self._discard(plan, decision, retries)
                scope = decision.scope
            self._number += 1

    def _execution(self, plan: AttemptPlan) -> Execution:
        return Execution(
            self._ref,
            plan,
            heartbeat_timeout=timedelta(seconds=self._input.heartbeat_timeout_seconds),
            grace=self._grace,
            enter=self._enter,
            leasing=self._leasing,
        )

    async def _unblocked(self) -> bool:
        """Wait for the request to be resumed when the endpoint refused the account."""
        refused = next((issue for issue in self._issues if _is_blocking(issue)), None)
        if refused is None:
            return False
        self._note(f"waiting: {refused.message}")
        return await self._parking.wait_for_resume(refused.message)

    async def _discard(self, plan: AttemptPlan, decision: RetryDecision, retry: int) -> None:
        """Keep the discarded execution for diagnosis, then wait without a slot."""
        delay = retry_delay(plan.retry, retry, workflow.random().random())
        await bookkeeping(
            SAVE_RETRY,
            SaveRetryInput(
                ref=self._ref,
                retry=retry,
                delay_seconds=delay,
                stage=decision.stage,
                scope=decision.scope,
                matched_pattern=decision.matched_pattern,
                issues=self._issues,
            ),
            summary=f"save retry {retry}",
        )
        reason = next((issue.message for issue in self._issues if issue.phase == decision.stage), "")
        self._note(f"retry {retry} of {plan.retry.max_retries} in {delay:.1f} s: {reason[:200]}")
        await self._parking.back_off(delay, f"retry {retry}")

    async def _save(self, retries: int) -> AttemptOutcome:
        """Keep the result. A cancellation that comes this late waits: what was scored is not thrown away."""
        self._enter(Phase.SAVE_PARTIAL)
        argument = SaveAttemptInput(
            ref=self._ref, attempts=self._input.attempts, retry_count=retries, issues=self._issues
        )
        saving = in_background(bookkeeping(SAVE_ATTEMPT, argument, summary="save"))
        try:
            return await asyncio.shield(saving)
        except asyncio.CancelledError:
            if being_evicted():
                raise
            await workflow.wait([saving], timeout=self._grace.left.total_seconds())
            if saving.done():
                return saving.result()
            saving.cancel()
            raise

    @workflow.signal(name=GO_SIGNAL)
    def go(self, *_: Any) -> None:
        """The request has a slot for this attempt again."""
        self._parking.go()

    @workflow.signal(name=LEASE_SIGNAL)
    def lease(self, *arguments: Any) -> None:
        """``Grant``: the pool of a provider has a place and a turn for this attempt."""
        grant = model_of(Grant, arguments)
        if grant is not None:
            self._leasing.granted(grant)

    @property
    def _ref(self) -> ExecutionRef:
        return ExecutionRef(**self._input.ref.model_dump(), execution=self._number)

    def _enter(self, phase: Phase) -> None:
        suffix = f" (execution {self._number})" if self._number > 1 else ""
        self._note(f"{phase}{suffix}")

    def _note(self, line: str) -> None:
        """Show a line in the UI's details of the running workflow."""
        self._lines = [*self._lines[-19:], f"| {workflow.now():%H:%M:%S} | {line.replace('|', '/')} |"]
        workflow.set_current_details("| time | phase |\n|---|---|\n" + "\n".join(self._lines))


def _is_blocking(issue: Issue) -> bool:
    return issue.severity is Severity.FATAL and issue.code in BLOCKING_CODES


def outcome_word(outcome: AttemptOutcome) -> str:
    """One word for filters: passed, failed, scored, error, fatal or not_evaluated."""
    if outcome.fatal:
        return "fatal"
    if outcome.success is not None:
        return "passed" if outcome.success else "failed"
    if outcome.error:
        return "error"
    return "scored" if outcome.status == TaskStatus.COMPLETED else "not_evaluated"
