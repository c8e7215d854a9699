"""One semantic attempt of one task: plan, execute, retry, save."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio import workflow
from temporalio.common import SearchAttributeKey
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from ..contracts.activities import (
        CLOSE_ENVIRONMENT,
        COLLECT_ARTIFACTS,
        EVALUATE,
        OPEN_ENVIRONMENT,
        PLAN_ATTEMPT,
        PREPARE_TASK,
        RUN_HARNESS,
        RUN_TASK,
        SAVE_ATTEMPT,
        SAVE_RETRY,
        ActivityStub,
        AttemptOutcome,
        AttemptPlan,
        CloseEnvironmentInput,
        ExecutionRef,
        OpenedEnvironment,
        OpenEnvironmentInput,
        PhaseInput,
        PhaseOutcome,
        SaveAttemptInput,
        SaveRetryInput,
        environment_id,
    )
    from ..contracts.environment import EnvironmentHandle
    from ..contracts.issues import BLOCKING_CODES, Issue, Severity
    from ..contracts.phases import Phase
    from ..contracts.request import EvaluationMode
    from ..contracts.result import TaskStatus
    from ..contracts.retries import RetryDecision, RetryScope, decide_retry, retry_delay
    from ..contracts.search_attributes import OUTCOME
    from ..contracts.workflows import (
        ATTEMPT_WORKFLOW,
        GO_SIGNAL,
        PARKED_SIGNAL,
        READY_SIGNAL,
        AttemptInput,
        ParkedAttempt,
        ParkReason,
    )
    from .calls import PhaseFailed, bookkeeping, hook, quick_hook

_OUTCOME_KEY = SearchAttributeKey.for_keyword(OUTCOME)
_OPEN_LIMIT = timedelta(hours=2)
_SLACK = 300.0
"""Seconds added to a budget before Temporal ends the activity; the activity itself is exact."""


@workflow.defn(name=ATTEMPT_WORKFLOW)
class AttemptWorkflow:
    """Drives the phases of an attempt and decides about its retries."""

    @workflow.init
    def __init__(self, input: AttemptInput) -> None:
        self._input = input
        self._plan: AttemptPlan
        self._execution = 1
        self._issues: list[Issue] = []
        self._has_result = False
        self._go = False
        self._lines: list[str] = []

    @workflow.run
    async def run(self, input: AttemptInput) -> AttemptOutcome:
        """Returns the attempt's outcome; ends as cancelled when it was, after its cleanup."""
        self._enter(Phase.PLAN)
        self._plan = await bookkeeping(PLAN_ATTEMPT, input.ref, summary="plan")
        retries = await self._execute_until_settled()
        self._enter(Phase.SAVE_PARTIAL)
        outcome = await bookkeeping(
            SAVE_ATTEMPT,
            SaveAttemptInput(
                ref=self._ref, attempts=input.attempts, retry_count=retries, issues=self._issues
            ),
            summary="save",
        )
        word = outcome_word(outcome)
        workflow.upsert_search_attributes([_OUTCOME_KEY.value_set(word)])
        self._note(f"**{word}** {outcome.message}")
        return outcome

    async def _execute_until_settled(self) -> int:
        """Execute, and execute again while the retry budget and the policy say so."""
        retries = 0
        scope = RetryScope.EVALUATE if self._plan.resume_evaluation else RetryScope.ATTEMPT
        self._has_result = self._plan.resume_evaluation
        decision = await self._execute_once(scope, retries)
        while decision is not None:
            retries += 1
            await self._discard(decision, retries)
            self._execution += 1
            decision = await self._execute_once(decision.scope, retries)
        return retries

    async def _execute_once(self, scope: RetryScope, used: int) -> RetryDecision | None:
        self._issues = []
        try:
            if scope is RetryScope.ATTEMPT:
                self._has_result = False
                await self._execute()
            else:
                await self._evaluate_apart()
        except PhaseFailed as failure:
            self._issues.append(failure.issue)
        blocked = next((issue for issue in self._issues if issue.code in BLOCKING_CODES), None)
        if blocked is not None and await self._park(ParkReason.BLOCKED, blocked.message):
            # Not a retry: the account was refused, and somebody has mended that.
            self._execution += 1
            return await self._execute_once(RetryScope.ATTEMPT, used)
        return decide_retry(
            self._issues, self._plan.retry, used, self._plan.mode, has_result=self._has_result
        )

    async def _discard(self, decision: RetryDecision, retry: int) -> None:
        """Keep the discarded execution for diagnosis, then wait."""
        delay = retry_delay(self._plan.retry, retry, workflow.random().random())
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
        self._note(
            f"retry {retry} of {self._plan.retry.max_retries} in {delay:.1f} s: {self._issues[0].message[:200]}"
        )
        parked = await self._park(ParkReason.BACKOFF, f"retry {retry}", delay)
        if not parked:
            await workflow.sleep(timedelta(seconds=delay), summary=f"back-off before retry {retry}")

    async def _park(self, reason: ParkReason, message: str, delay: float = 0.0) -> bool:
        """Give the slot back and wait for another one. False when there is no request to ask."""
        info = workflow.info()
        if info.parent is None:
            return False
        parent = workflow.get_external_workflow_handle(info.parent.workflow_id)
        parked = ParkedAttempt(workflow_id=info.workflow_id, reason=reason, message=message)
        self._go = False
        try:
            await parent.signal(PARKED_SIGNAL, parked)
            if reason is ParkReason.BACKOFF:
                await workflow.sleep(timedelta(seconds=delay), summary=f"back-off before {message}")
                await parent.signal(READY_SIGNAL, info.workflow_id)
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            return False  # the request is gone; an abandoned attempt finishes what it has
        self._note(f"waiting: {message}")
        await workflow.wait_condition(lambda: self._go)
        return True

    @workflow.signal(name=GO_SIGNAL)
    def go(self) -> None:
        """The request has a slot for this attempt again."""
        self._go = True

    async def _execute(self) -> None:
        opened = await self._open(for_evaluation=False)
        try:
            await self._phase(Phase.PREPARE_TASK, PREPARE_TASK, opened)
            await self._run_agent(opened)
            if self._plan.collects_artifacts:
                await self._phase(
                    Phase.COLLECT_ARTIFACTS, COLLECT_ARTIFACTS, opened, self._plan.collect_timeout_seconds
                )
            if self._plan.mode is EvaluationMode.REUSE and self._scorable():
                await self._evaluate(opened)
        finally:
            if not self._plan.keep_environment:
                await self._close(opened)
        if self._plan.mode is not EvaluationMode.REUSE and self._scorable():
            await self._evaluate_apart()

    async def _run_agent(self, opened: OpenedEnvironment) -> None:
        phase, stub = (
            (Phase.RUN_TASK, RUN_TASK) if self._plan.harness_free else (Phase.RUN_HARNESS, RUN_HARNESS)
        )
        outcome = await self._phase(phase, stub, opened, self._plan.run_timeout_seconds)
        self._has_result = outcome.status != TaskStatus.SKIPPED

    def _scorable(self) -> bool:
        """A FATAL leaves nothing to judge; an ERROR, such as the agent's timeout, does."""
        return self._has_result and not any(issue.severity is Severity.FATAL for issue in self._issues)

    async def _evaluate_apart(self) -> None:
        """Modes ``none`` and ``fresh``: judge on the worker, or in an environment of its own."""
        if self._plan.mode is EvaluationMode.NONE:
            await self._evaluate(None)
            return
        opened = await self._open(for_evaluation=True)
        try:
            await self._evaluate(opened)
        finally:
            if not self._plan.keep_environment:
                await self._close(opened)

    async def _evaluate(self, opened: OpenedEnvironment | None) -> None:
        await self._phase(Phase.EVALUATE, EVALUATE, opened, self._plan.evaluation_timeout_seconds)

    async def _open(self, *, for_evaluation: bool) -> OpenedEnvironment:
        """Open an environment; what a failed or cancelled opening left behind is removed by its id."""
        try:
            return await self._open_unguarded(for_evaluation)
        except BaseException:
            name = self._plan.evaluation_environment if for_evaluation else self._plan.environment
            found = environment_id(self._ref, for_evaluation=for_evaluation)
            handle = EnvironmentHandle(provider=name or "", id=found)
            await self._close(OpenedEnvironment(handle=handle))
            raise

    async def _open_unguarded(self, for_evaluation: bool) -> OpenedEnvironment:
        phase = Phase.EVALUATE_ENVIRONMENT if for_evaluation else Phase.OPEN_ENVIRONMENT
        argument = OpenEnvironmentInput(ref=self._ref, for_evaluation=for_evaluation)
        self._enter(phase)
        if phase in self._plan.quick_phases:
            return await quick_hook(OPEN_ENVIRONMENT, argument, phase)
        name = self._plan.evaluation_environment if for_evaluation else self._plan.environment
        return await hook(
            OPEN_ENVIRONMENT,
            argument,
            phase,
            summary=f"open {name}",
            heartbeat_timeout=self._heartbeat,
            limit=_OPEN_LIMIT,
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
        argument = PhaseInput(ref=self._ref, handle=opened.handle if opened else None)
        queue = opened.task_queue if opened else None
        if phase in self._plan.quick_phases and queue is None:
            outcome = await quick_hook(stub, argument, phase)
        else:
            limit = {} if budget is None else {"limit": timedelta(seconds=budget + _SLACK)}
            outcome = await hook(
                stub,
                argument,
                phase,
                summary=f"{phase} {self._input.ref.task_id}"[:190],
                heartbeat_timeout=self._heartbeat,
                task_queue=queue,
                **limit,
            )
        self._issues.extend(outcome.issues)
        return outcome

    async def _close(self, opened: OpenedEnvironment) -> None:
        """Close whatever happened before; a failure is a WARNING, and cancellation waits for it."""
        await asyncio.shield(asyncio.ensure_future(self._close_unshielded(opened)))

    async def _close_unshielded(self, opened: OpenedEnvironment) -> None:
        self._enter(Phase.CLOSE_ENVIRONMENT)
        argument = CloseEnvironmentInput(ref=self._ref, handle=opened.handle)
        try:
            if Phase.CLOSE_ENVIRONMENT in self._plan.quick_phases and opened.task_queue is None:
                outcome = await quick_hook(CLOSE_ENVIRONMENT, argument, Phase.CLOSE_ENVIRONMENT)
            else:
                outcome = await hook(
                    CLOSE_ENVIRONMENT,
                    argument,
                    Phase.CLOSE_ENVIRONMENT,
                    summary=f"close {opened.handle.id}"[:190],
                    heartbeat_timeout=self._heartbeat,
                    limit=timedelta(seconds=max(self._input.cleanup_grace_seconds, 10.0)),
                    task_queue=opened.task_queue,
                )
            self._issues.extend(outcome.issues)
        except PhaseFailed as failure:
            self._issues.append(failure.issue.model_copy(update={"severity": Severity.WARNING}))
        except BaseException as error:
            if not is_cancelled_exception(error):
                raise
            self._note("cleanup was cancelled; the reaper removes what is left")

    @property
    def _ref(self) -> ExecutionRef:
        return ExecutionRef(**self._input.ref.model_dump(), execution=self._execution)

    @property
    def _heartbeat(self) -> timedelta:
        return timedelta(seconds=self._input.heartbeat_timeout_seconds)

    def _enter(self, phase: Phase) -> None:
        suffix = f" (execution {self._execution})" if self._execution > 1 else ""
        self._note(f"{phase}{suffix}")

    def _note(self, line: str) -> None:
        """Show a line in the UI's details of the running workflow."""
        self._lines = [*self._lines[-19:], f"| {workflow.now():%H:%M:%S} | {line.replace('|', '/')} |"]
        workflow.set_current_details("| time | phase |\n|---|---|\n" + "\n".join(self._lines))


def outcome_word(outcome: AttemptOutcome) -> str:
    """One word for filters: passed, failed, scored, error, fatal or not_evaluated."""
    if outcome.fatal:
        return "fatal"
    if outcome.success is not None:
        return "passed" if outcome.success else "failed"
    if outcome.error:
        return "error"
    return "scored" if outcome.status == TaskStatus.COMPLETED else "not_evaluated"
