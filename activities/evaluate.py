"""Let the benchmark judge a result."""

from __future__ import annotations

import asyncio
import contextlib

from temporalio import activity

from ..contracts.activities import EVALUATE, PhaseInput, PhaseOutcome
from ..contracts.environment import EnvironmentSession
from ..contracts.issues import Issue, IssueCode, IssuePhase, Severity
from ..contracts.network import NetworkPolicy
from ..contracts.phases import Phase
from ..contracts.plan import ExecutionPlan
from ..contracts.request import EvaluationMode
from ..contracts.result import RunResult
from .artifacts import drop_copy, restore_artifacts
from .boundary import activity_boundary, failed
from .classification import make_issue
from .metrics import check_metrics
from .phase import PhaseScope, phase_scope
from .phase_limit import PhaseLimit
from .results import checked_result, of_type, with_ours
from .run_phase import end_agent, outcome_of
from .services import Services
from .task_steps import conclude_step

EVALUATION_BUDGET = "evaluation_timeout_seconds"


class Evaluate:
    """A second try finds the stored score, or ends what the first left running and judges again."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=EVALUATE.name)
    @activity_boundary
    async def evaluate(self, input: PhaseInput) -> PhaseOutcome:
        """Store the scored result durably before anything else happens."""
        async with phase_scope(self._services, input.ref, Phase.EVALUATE, quick=input.quick) as scope:
            done = scope.execution.find_scored()
            if done is not None:
                return await self._concluded(scope, done)
            await scope.enter(Phase.EVALUATE)
            with scope.hooks():
                env = await self._environment(scope, input)
                async with contextlib.AsyncExitStack() as leaving:
                    leaving.push_async_callback(drop_copy, scope)
                    leaving.push_async_callback(self._settle, scope, env)
                    result = await restore_artifacts(scope, scope.execution.load_result(), env)
                    scored = with_ours(_checked(scope, await self._judge(scope, result, env)), result)
            scored = scored.with_issues(scope.context.issues)
            timings = {**scored.meta.timings, **scope.timings}
            scored = scored.model_copy(update={"meta": scored.meta.model_copy(update={"timings": timings})})
            await asyncio.to_thread(scope.execution.save_scored, scored)
            return await self._concluded(scope, scored)

    async def _concluded(self, scope: PhaseScope, scored: RunResult) -> PhaseOutcome:
        """What the workflow is told; after a step also whether another one follows."""
        outcome = outcome_of(scored)
        if not scope.ref.step:
            return outcome
        with scope.hooks():
            ends = await conclude_step(scope, scored)
        return outcome.model_copy(update={"ends_steps": ends})

    async def _judge(self, scope: PhaseScope, result: RunResult, env: EnvironmentSession | None) -> object:
        budget = scope.plan.budgets.evaluation_timeout_seconds
        # A try that begins anew must not pay for the one whose worker was lost.
        limit = PhaseLimit(scope, scope.context.start_budget(budget, resumed=False))
        prepared = scope.execution.load_prepared()
        try:
            async with limit:
                with scope.timed("evaluate"):
                    return await scope.call(
                        scope.components.benchmark.evaluate,
                        scope.task,
                        prepared,
                        result,
                        scope.components.request,
                        scope.plan,
                        env,
                        scope.context,
                    )
        except TimeoutError:
            spent = evaluation_budget_issue(budget) if limit.expired else None
            issue = limit.issue or limit.overdue or spent
            if issue is None:
                raise
            raise failed(issue, scope.context.issues) from None

    async def _environment(self, scope: PhaseScope, input: PhaseInput) -> EnvironmentSession | None:
        if input.handle is None:
            return None
        fresh = scope.plan.evaluation_environment_mode is EvaluationMode.FRESH
        env = await scope.attach(input.handle, for_evaluation=fresh)
        # Nothing of the agent, nor of a try before this one, may rewrite a verdict.
        await env.end_all_processes()
        plan = scope.plan
        if fresh or scope.environment(plan.environment).capabilities.switches_network:
            before = _baseline(plan) if fresh else scope.run_policy()
            if plan.keep_environment and before == plan.evaluation_network_policy:
                before = _baseline(plan)  # with which a try before this one left it
            await scope.switch_network(env, before, plan.evaluation_network_policy)
        return env

    async def _settle(self, scope: PhaseScope, env: EnvironmentSession | None) -> None:
        """An environment that is kept is left at rest, and with its baseline policy; others go at once."""
        plan = scope.plan
        if env is None or not plan.keep_environment:
            return
        await end_agent(scope, env)
        await scope.warn_on_failure(
            scope.switch_network(env, plan.evaluation_network_policy, _baseline(plan)),
            IssuePhase.CLEANUP,
            IssueCode.NETWORK_POLICY_FAILED,
        )


def _checked(scope: PhaseScope, value: object) -> RunResult:
    """What the verifier returned, with the metrics that follow the contract and issues for the others."""
    scored = of_type(RunResult, value, "evaluate")
    valid, issues = check_metrics(scored.metrics, scope.components.benchmark.metric_contract)
    scored = scored.model_copy(update={"metrics": valid})
    return checked_result(scored, "evaluate", scope.execution.add_diagnostics).with_issues(issues)


def _baseline(plan: ExecutionPlan) -> NetworkPolicy:
    """The policy with which the environment was opened that the evaluation works in."""
    spec = plan.evaluation_environment or plan.environment
    return spec.network_policy or NetworkPolicy()


def evaluation_budget_issue(seconds: float | None) -> Issue:
    """The verifier's timeout: there is no score, which is not the same as a score of 0."""
    return make_issue(
        Severity.ERROR,
        IssuePhase.EVALUATE,
        IssueCode.EVALUATION_TIMEOUT,
        f"the evaluation budget of {seconds or 0:g} s ({EVALUATION_BUDGET}) is used up",
    )
