"""Run the agent: harness or harness-free benchmark, within its budget, and collect the result."""

from __future__ import annotations

import asyncio
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from ..contracts.activities import RUN_HARNESS, RUN_TASK, PhaseInput, PhaseOutcome
from ..contracts.ending import at_most_error, ended_issue
from ..contracts.environment import EnvironmentSession
from ..contracts.harness import Harness
from ..contracts.issues import Issue, IssueCode, IssuePhase, Severity
from ..contracts.phases import Phase
from ..contracts.request import EvaluationMode
from ..contracts.result import RunResult, Trajectory
from ..contracts.task import PreparedTask
from .boundary import activity_boundary, failed
from .classification import describe, known_issue, make_issue, tidy
from .deliverables import warn_of_missing_files
from .hook_calls import HOOK_FAILURES, raise_if_cancelled
from .phase import PhaseScope, phase_scope
from .phase_limit import PhaseLimit
from .plan_attempt import collects_artifacts
from .results import checked_result
from .reuse import checkpoint_evaluation
from .services import Services

RUN_BUDGET = "run_timeout_seconds"
RESULT_BUDGET = "harness_result_timeout_seconds"
DEADLINE_VARIABLE = "AGENTCOMPASS_DEADLINE"
"""Unix time at which the run budget ends, given to every command of the run phase."""


class RunPhase:
    """A second try goes on where the first one stopped, as far as the harness checkpoints; when the
    first one had stored its result, nothing runs again."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=RUN_HARNESS.name)
    @activity_boundary
    async def run_harness(self, input: PhaseInput) -> PhaseOutcome:
        """Start a session, execute the task, collect, close."""
        async with phase_scope(self._services, input.ref, Phase.RUN_HARNESS, quick=input.quick) as scope:
            done = scope.execution.find_result()
            if done is not None:
                return outcome_of(done)
            assert input.handle is not None and scope.components.harness is not None
            with scope.hooks(Phase.START_HARNESS):
                env = await scope.attach(input.handle)
            run = _HarnessRun(scope, env, scope.components.harness)
            result = await run.run()
            await warn_of_missing_files(scope, env, run.prepared, result)
            await leave_at_rest(scope, env)
            return await save_result(scope, result)

    @activity.defn(name=RUN_TASK.name)
    @activity_boundary
    async def run_task(self, input: PhaseInput) -> PhaseOutcome:
        """Let a harness-free benchmark run its task."""
        async with phase_scope(self._services, input.ref, Phase.RUN_TASK, quick=input.quick) as scope:
            done = scope.execution.find_result()
            if done is not None:
                return outcome_of(done)
            assert input.handle is not None
            prepared = scope.execution.load_prepared()
            await scope.enter(Phase.RUN_TASK)
            with scope.hooks():
                env = await scope.attach(input.handle)
                await switch_to_run_policy(scope, env)
            result = await _run_free(scope, env, prepared)
            await warn_of_missing_files(scope, env, prepared, result)
            await leave_at_rest(scope, env)
            return await save_result(scope, result)


async def _run_free(scope: PhaseScope, env: EnvironmentSession, prepared: PreparedTask) -> RunResult:
    """What the benchmark returned; after a failure or a timeout, what it recorded, with the issue."""
    budget = scope.plan.budgets.run_timeout_seconds
    left = scope.context.start_budget(budget)
    set_deadline(scope, env)
    limit = PhaseLimit(scope, left)
    try:
        async with limit, _Timed(scope, "run"):
            result = await scope.call(
                scope.components.harness_free.run_task,
                prepared,
                env,
                scope.components.request,
                scope.plan.benchmark_plan,
                scope.context,
            )
            return checked_result(result, "run_task", scope.execution.add_diagnostics)
    except HOOK_FAILURES as error:
        raise_if_cancelled(error)
        await end_agent(scope, env)
        return blank_result(scope).with_issues([_issue_of(scope, error, limit)])
    finally:
        scope.context.stop_budget()


class _HarnessRun:
    """The four hooks of a harness in their order."""

    def __init__(self, scope: PhaseScope, env: EnvironmentSession, harness: Harness[Any, Any]) -> None:
        self._scope = scope
        self._env = env
        self._harness = harness
        self._request = scope.components.request
        self._plan = scope.plan.harness_plan
        self.prepared: PreparedTask = scope.execution.load_prepared()
        self._ended: Issue | None = None
        """An operator's decision to go on with what there is."""

    async def run(self) -> RunResult:
        scope = self._scope
        await scope.enter(Phase.START_HARNESS)
        limit = self._start_limit()
        try:
            async with limit:
                session = await self._start()
        except (TimeoutError, ApplicationError):
            await end_agent(scope, self._env)
            ended = limit.issue or self._ended
            if ended is None:
                if limit.overdue is None:
                    raise
                raise failed(limit.overdue, scope.context.issues) from None
            return blank_result(scope).with_issues([ended])
        try:
            with scope.hooks():
                await switch_to_run_policy(scope, self._env)
            await scope.enter(Phase.RUN_HARNESS)
            problem = await self._execute(session)
            result = await self._collect(session, problem)
        finally:
            await self._close(session)
        return result

    def _start_limit(self) -> PhaseLimit:
        """Starting has no budget. When an operator ended the run already, and the worker that was told died,
        it is started once more, to collect, and within the budget for that."""
        end = self._scope.operator_end()
        if end is None:
            return PhaseLimit(self._scope, None, phase=Phase.START_HARNESS)
        self._ended = tidy(ended_issue(end))
        seconds = self._scope.plan.budgets.harness_result_timeout_seconds
        return PhaseLimit(self._scope, seconds, endable=False)

    async def _start(self) -> Any:
        scope = self._scope
        with scope.hooks(Phase.START_HARNESS), scope.timed("start_harness"):
            return await scope.call(
                self._harness.start_session, self._env, self._request, self._plan, scope.context
            )

    async def _execute(self, session: Any) -> Issue | None:
        """Run the agent within its budget; what goes wrong is an issue, so that the rest is kept."""
        scope = self._scope
        left = scope.context.start_budget(scope.plan.budgets.run_timeout_seconds)
        set_deadline(scope, self._env)
        limit = PhaseLimit(scope, left)
        try:
            async with limit, _Timed(scope, "run"):
                await scope.call(
                    self._harness.execute_task,
                    session,
                    self.prepared,
                    self._request,
                    self._plan,
                    scope.context,
                )
        except HOOK_FAILURES as error:
            raise_if_cancelled(error)
            self._ended = limit.issue
            await end_agent(scope, self._env)
            return _issue_of(scope, error, limit)
        finally:
            scope.context.stop_budget(scope.plan.budgets.harness_result_timeout_seconds)
        return None

    async def _collect(self, session: Any, problem: Issue | None) -> RunResult:
        """Collect after success, failure and timeout alike; keep both problems when it fails, too."""
        scope = self._scope
        seconds = scope.plan.budgets.harness_result_timeout_seconds
        found = [problem] if problem else []
        limit = PhaseLimit(scope, seconds, endable=False)
        try:
            async with limit, _Timed(scope, "collect_result"):
                collected = await scope.call(
                    self._harness.collect_result,
                    session,
                    self.prepared,
                    self._request,
                    self._plan,
                    scope.context,
                )
            result = checked_result(collected, "collect_result", scope.execution.add_diagnostics)
        except HOOK_FAILURES as error:
            raise_if_cancelled(error)
            await end_agent(scope, self._env)
            found.append(_late_collection(limit, seconds) or self._collection_issue(error))
            result = blank_result(scope)
        if self._ended is not None:
            found = [at_most_error(issue) for issue in found]
            result = _with_recorded_steps(scope, result)
        return result.with_issues(found)

    def _collection_issue(self, error: BaseException) -> Issue:
        """What the harness named itself counts; anything else is a failed collection."""
        self._scope.note(error)
        issue = known_issue(error, self._scope.phase)
        return issue or make_issue(
            Severity.FATAL, IssuePhase.COLLECT, IssueCode.RESULT_COLLECTION_FAILED, describe(error)
        )

    async def _close(self, session: Any) -> None:
        grace = max(self._scope.store.request_state().runtime.cleanup_grace_seconds, 1.0)

        async def close() -> None:
            # Not ``wait_for``: on Python 3.11 it swallows a cancellation that comes with the result.
            async with asyncio.timeout(grace):
                await self._scope.call(self._harness.close_session, session)

        await self._scope.warn_on_failure(close(), IssuePhase.CLEANUP, IssueCode.CLEANUP_FAILED)


class _Timed:
    """``scope.timed`` as an asynchronous context manager, to stand beside a timeout."""

    def __init__(self, scope: PhaseScope, name: str) -> None:
        self._manager = scope.timed(name)

    async def __aenter__(self) -> None:
        self._manager.__enter__()

    async def __aexit__(self, *exc: Any) -> None:
        self._manager.__exit__(*exc)


def _issue_of(scope: PhaseScope, error: BaseException, limit: PhaseLimit) -> Issue:
    """Why the agent did not come to its end by itself."""
    ended = limit.issue or limit.overdue
    if ended is not None:
        return ended
    return budget_issue(scope.plan.budgets.run_timeout_seconds) if limit.expired else scope.note(error)


def _late_collection(limit: PhaseLimit, seconds: float) -> Issue | None:
    """The collection that did not end in time; ``None`` when it was not that."""
    if limit.overdue is not None:
        code = IssueCode.RESULT_COLLECTION_FAILED
        return make_issue(Severity.FATAL, IssuePhase.COLLECT, code, limit.overdue.message)
    return result_budget_issue(seconds) if limit.expired else None


def _with_recorded_steps(scope: PhaseScope, result: RunResult) -> RunResult:
    return (
        result
        if result.trajectory
        else result.model_copy(update={"trajectory": blank_result(scope).trajectory})
    )


def budget_issue(seconds: float | None) -> Issue:
    """The agent's timeout: an ERROR beside the score of what it left."""
    return make_issue(
        Severity.ERROR,
        IssuePhase.RUN,
        IssueCode.HARNESS_TIMEOUT,
        f"the run budget of {seconds or 0:g} s ({RUN_BUDGET}) is used up",
    )


def result_budget_issue(seconds: float) -> Issue:
    """The harness took too long to collect: there may be an answer, and nobody has it."""
    return make_issue(
        Severity.FATAL,
        IssuePhase.COLLECT,
        IssueCode.RESULT_COLLECTION_FAILED,
        f"the budget of {seconds:g} s for collecting the result ({RESULT_BUDGET}) is used up",
    )


async def end_agent(scope: PhaseScope, env: EnvironmentSession) -> None:
    """After a failure or a timeout: what the agent started ends before anything else happens there."""
    await scope.warn_on_failure(env.end_all_processes(), IssuePhase.CLEANUP, IssueCode.CLEANUP_FAILED)


async def leave_at_rest(scope: PhaseScope, env: EnvironmentSession) -> None:
    """Nobody else ends what the agent left running in an environment that is kept and not judged in.

    The next step of a task finds what the one before left running, kept or not.
    """
    judged_here = scope.plan.evaluation_environment_mode is EvaluationMode.REUSE
    is_last = scope.ref.step >= len(scope.whole_task.steps)
    if scope.plan.keep_environment and not judged_here and is_last:
        await end_agent(scope, env)


def set_deadline(scope: PhaseScope, env: EnvironmentSession) -> None:
    """Tell the agent its absolute deadline."""
    if scope.context.deadline is not None:
        env.add_variables({DEADLINE_VARIABLE: f"{scope.context.deadline:.3f}"})


async def switch_to_run_policy(scope: PhaseScope, env: EnvironmentSession) -> None:
    """From the policy that the environment was opened with to that of the run phase."""
    await scope.switch_network(env, scope.opening_policy(), scope.run_policy())


def blank_result(scope: PhaseScope) -> RunResult:
    """A result without an answer, with the steps that were recorded."""
    steps = scope.execution.read_steps()
    return RunResult(
        task_id=scope.task.task_id,
        category=scope.task.category,
        ground_truth=scope.task.ground_truth,
        trajectory=Trajectory(steps=steps) if steps else None,
    )


async def save_result(scope: PhaseScope, result: RunResult) -> PhaseOutcome:
    """Store the unscored result; a FATAL in it ends the phase with that issue."""
    result = result.with_issues(scope.context.issues)
    timings = {**result.meta.timings, **scope.timings}
    result = result.model_copy(update={"meta": result.meta.model_copy(update={"timings": timings})})
    if result.trajectory is not None and not scope.execution.read_steps():
        # An agent that tells of its steps only now: those that it recorded were counted one by one.
        scope.services.metrics.model_calls(scope.components.request, result.trajectory.steps)
    if not collects_artifacts(scope.components, scope.plan):
        await checkpoint_evaluation(scope, result)
    scope.execution.save_result(result)
    return outcome_of(result)


def outcome_of(result: RunResult) -> PhaseOutcome:
    """What the workflow is told of a stored result; FATAL is raised, so that the UI shows it."""
    for issue in result.issues:
        if issue.severity is Severity.FATAL:
            raise failed(issue)
    return PhaseOutcome(issues=result.issues, status=result.status)
