"""One semantic attempt of one task: plan, execute, retry, save."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey, VersioningBehavior
from temporalio.exceptions import ApplicationError, FailureError

with workflow.unsafe.imports_passed_through():
    from ..contracts.activities import (
        ANY_PHASE,
        END_PHASE,
        PLAN_ATTEMPT,
        SAVE_ATTEMPT,
        SAVE_RETRY,
        AttemptBegun,
        AttemptOutcome,
        AttemptPlan,
        EndPhaseInput,
        ExecutionRef,
        OperatorEnd,
        QuickExecution,
        SaveAttemptInput,
        SaveRetryInput,
    )
    from ..contracts.ending import at_most_error, ended_issue
    from ..contracts.issues import Issue, IssueCode, IssuePhase, Severity
    from ..contracts.outcomes import outcome_word
    from ..contracts.phases import ENDABLE_PHASES, Phase
    from ..contracts.retries import (
        HOST_LOST_PATTERN,
        MAX_HOST_LOSSES,
        RetryDecision,
        RetryScope,
        blocking_issue,
        decide_retry,
        lost_host,
        retry_delay,
        scope_when_unblocked,
    )
    from ..contracts.search_attributes import OUTCOME
    from ..contracts.workflows import (
        ATTEMPT_WORKFLOW,
        END_UPDATE,
        GO_SIGNAL,
        AttemptInput,
        EndAttempt,
        EndedPhase,
    )
    from .beginning import begin
    from .calls import PhaseFailed, as_phase_failure, being_evicted, bookkeeping, in_background
    from .execution import Execution
    from .grace import Grace
    from .hosts import Hosts
    from .parking import Parking

_OUTCOME_KEY = SearchAttributeKey.for_keyword(OUTCOME)


@workflow.defn(name=ATTEMPT_WORKFLOW, versioning_behavior=VersioningBehavior.PINNED)
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
        self._phase: Phase | None = None
        """What runs; ``None`` while the attempt waits."""
        self._executing: Execution | None = None
        self._begins_in_one_step = False
        self._ended: EndPhaseInput | None = None
        """The last decision of an operator."""

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
        retries, outcome = 0, None
        try:
            begun = await self._begin(input)
        except PhaseFailed as failure:
            self._issues = [failure.issue]
        else:
            outcome = begun.outcome
            if outcome is None and not begun.plan.finished:
                # Phases that are local activities are recorded together at the end of their workflow task.
                retries = await self._execute_until_settled(begun.plan, begun.execution)
        outcome = outcome or await self._save(retries)
        word = outcome_word(outcome)
        workflow.upsert_search_attributes([_OUTCOME_KEY.value_set(word)])
        self._note(f"**{word}** {outcome.message}")
        # Whoever asked for something in the last moment gets his answer.
        await workflow.wait_condition(workflow.all_handlers_finished)
        return outcome

    async def _begin(self, input: AttemptInput) -> AttemptBegun:
        """Plan; what is quick as a whole is over after that."""
        self._enter(Phase.PLAN)
        try:
            if input.in_one_step:
                self._begins_in_one_step = True
                try:
                    return await begin(input, self._grace)
                finally:
                    self._begins_in_one_step = False
            return AttemptBegun(plan=await bookkeeping(PLAN_ATTEMPT, input.ref, summary="plan"))
        except FailureError as error:
            raise as_phase_failure(error, Phase.PLAN) from error

    async def _execute_until_settled(self, plan: AttemptPlan, done: QuickExecution | None) -> int:
        """Execute, and execute again while the retry budget and the policy say so; returns the retries.

        ``done`` is a first execution that came with the plan.
        """
        retries = losses = 0
        scope = RetryScope.EVALUATE if plan.resume_evaluation else RetryScope.ATTEMPT
        kept: list[Issue] = []
        while True:
            execution = self._executing = self._execution(plan)
            if done is None:
                await execution.run(scope)
            else:
                execution.take(done)
                done = None
            self._issues, kept = [*kept, *execution.issues], []
            if execution.lost_while_held:
                # Not a retry either: nothing was wrong with the agent's work.
                scope, kept = RetryScope.ATTEMPT, [_lost_while_held()]
                self._note(kept[0].message)
                self._number += 1
                continue
            refused, lost = blocking_issue(self._issues), lost_host(self._issues)
            if lost is not None and self._was_ended():
                return retries
            if lost is not None and losses < MAX_HOST_LOSSES:
                losses += 1
                scope = scope_when_unblocked(lost, plan.mode, has_result=execution.has_result)
                await self._give_up_host(plan, lost, scope, retries, losses)
            elif refused is not None and await self._unblocked(refused):
                # Not a retry: the endpoint refused the account, and somebody has mended that.
                scope = scope_when_unblocked(refused, plan.mode, has_result=execution.has_result)
                if scope is RetryScope.EVALUATE:  # of the same execution, whose result waits for its judge
                    kept = [issue for issue in self._issues if issue != refused]
                    continue
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
            unblocked=self._unblocked,
            hosts=Hosts(self._input.host_lost_after_seconds, self._note),
        )

    async def _unblocked(self, refused: Issue) -> bool:
        """Wait for the request to be resumed. False when there is none that could be."""
        self._phase = None
        self._note(f"waiting: {refused.message}")
        return await self._parking.wait_for_resume(refused.message, refused.code)

    async def _discard(self, plan: AttemptPlan, decision: RetryDecision, retry: int) -> None:
        """Keep the discarded execution for diagnosis, then wait without a slot."""
        self._phase = None
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

    def _was_ended(self) -> bool:
        """Whether an operator ended this execution, whose host never heard of it: then what there is stands."""
        if self._ended is None or self._ended.ref.execution != self._number:
            return False
        ended = ended_issue(self._ended.end)
        self._issues = [*(at_most_error(issue) for issue in self._issues), ended]
        return True

    async def _give_up_host(
        self, plan: AttemptPlan, lost: Issue, scope: RetryScope, retries: int, losses: int
    ) -> None:
        """Keep what is known of an execution whose host is gone; another one follows at once, elsewhere."""
        self._phase = None
        self._note(f"executed again elsewhere: {lost.message}")
        await bookkeeping(
            SAVE_RETRY,
            SaveRetryInput(
                ref=self._ref,
                retry=retries,
                delay_seconds=0.0,
                stage=lost.phase,
                scope=scope,
                matched_pattern=HOST_LOST_PATTERN,
                issues=self._issues,
                loss=losses,
            ),
            summary=f"save loss {losses}",
        )

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

    @workflow.update(name=END_UPDATE)
    async def end(self, request: EndAttempt) -> EndedPhase:
        """End the phase that runs, and go on with what it left."""
        phase, ref = self._phase, self._ref
        if self._executing is not None:
            ref = ref.model_copy(update={"step": self._executing.step})
        assert phase is not None  # the validator has looked in this same moment
        self._note(f"an operator ends {phase}: {request.reason}")
        in_one_step = self._in_one_step
        end = OperatorEnd(phase=ANY_PHASE if in_one_step else phase, reason=request.reason)
        self._ended = EndPhaseInput(ref=ref, end=end)
        await bookkeeping(END_PHASE, self._ended, summary=f"end {phase}")
        return EndedPhase(phase="the execution" if in_one_step else phase, execution=ref.execution)

    @end.validator
    def _may_be_ended(self, request: EndAttempt) -> None:
        del request
        if self._phase is None:
            raise ApplicationError("it waits; nothing runs that could be ended", type="NotEndable")
        if self._phase not in ENDABLE_PHASES and not self._in_one_step:
            raise ApplicationError(f"it is in {self._phase}, which ends by itself", type="NotEndable")

    @property
    def _in_one_step(self) -> bool:
        """Whether one activity executes everything, so that nobody outside knows in which phase it is."""
        return self._begins_in_one_step or (self._executing is not None and self._executing.in_one_step)

    @property
    def _ref(self) -> ExecutionRef:
        return ExecutionRef(**self._input.ref.model_dump(), execution=self._number)

    def _enter(self, phase: Phase) -> None:
        self._phase = phase
        step = f" step {self._executing.step}" if self._executing and self._executing.step else ""
        suffix = f" (execution {self._number})" if self._number > 1 else ""
        self._note(f"{phase}{step}{suffix}")

    def _note(self, line: str) -> None:
        """Show a line in the UI's details of the running workflow."""
        self._lines = [*self._lines[-19:], f"| {workflow.now():%H:%M:%S} | {line.replace('|', '/')} |"]
        workflow.set_current_details("| time | phase |\n|---|---|\n" + "\n".join(self._lines))


def _lost_while_held() -> Issue:
    """Beside the result of the second execution, so that nobody wonders about its cost."""
    return Issue(
        severity=Severity.WARNING,
        phase=IssuePhase.EVALUATE,
        code=IssueCode.ENVIRONMENT_LOST,
        message="the environment was gone when the paused run went on; the attempt was executed again",
    )
