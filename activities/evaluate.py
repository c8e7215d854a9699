"""Let the benchmark judge a result."""

from __future__ import annotations

import asyncio

from temporalio import activity

from ..contracts.activities import EVALUATE, PhaseInput, PhaseOutcome
from ..contracts.environment import EnvironmentSession
from ..contracts.issues import IssueCode, IssuePhase, Severity
from ..contracts.phases import Phase
from ..contracts.request import EvaluationMode
from ..contracts.result import RunResult
from .boundary import activity_boundary, failed
from .classification import make_issue
from .metrics import check_metrics
from .phase import PhaseScope, call_hook, phase_scope
from .services import Services

EVALUATION_BUDGET = "evaluation_timeout_seconds"


class Evaluate:
    """A second try finds the stored score, or ends what the first left running and judges again."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=EVALUATE.name)
    @activity_boundary
    async def evaluate(self, input: PhaseInput) -> PhaseOutcome:
        """Store the scored result durably before anything else happens."""
        async with phase_scope(self._services, input.ref, Phase.EVALUATE) as scope:
            done = scope.execution.find_scored()
            if done is not None:
                return PhaseOutcome(issues=done.issues, status=done.status)
            await scope.enter(Phase.EVALUATE)
            scored = await self._judge(scope, input)
            valid, issues = check_metrics(scored.metrics, scope.components.benchmark.metric_contract)
            scored = scored.model_copy(update={"metrics": valid}).with_issues(
                [*scope.context.issues, *issues]
            )
            timings = {**scored.meta.timings, **scope.timings}
            scored = scored.model_copy(update={"meta": scored.meta.model_copy(update={"timings": timings})})
            await asyncio.to_thread(scope.execution.save_scored, scored)
            for issue in scored.issues:
                if issue.severity is Severity.FATAL:
                    raise failed(issue)
            return PhaseOutcome(issues=scored.issues, status=scored.status)

    async def _judge(self, scope: PhaseScope, input: PhaseInput) -> RunResult:
        budget = scope.plan.budgets.evaluation_timeout_seconds
        with scope.hooks():
            env = await self._environment(scope, input)
            left = scope.context.start_budget(budget)
            try:
                async with asyncio.timeout(left) as limit:
                    with scope.timed("evaluate"):
                        return await call_hook(
                            scope.components.benchmark.evaluate,
                            scope.task,
                            scope.execution.load_prepared(),
                            scope.execution.load_result(),
                            scope.components.request,
                            scope.plan,
                            env,
                            scope.context,
                        )
            except TimeoutError:
                if not limit.expired():
                    raise
                if env is not None:
                    await env.end_all_processes()
                raise failed(
                    make_issue(
                        Severity.ERROR,
                        IssuePhase.EVALUATE,
                        IssueCode.EVALUATION_TIMEOUT,
                        f"the evaluation budget of {budget or 0:g} s ({EVALUATION_BUDGET}) is used up",
                    )
                ) from None

    async def _environment(self, scope: PhaseScope, input: PhaseInput) -> EnvironmentSession | None:
        if input.handle is None:
            return None
        fresh = scope.plan.evaluation_environment_mode is EvaluationMode.FRESH
        env = await scope.attach(input.handle, for_evaluation=fresh)
        # Nothing of the agent, nor of a try before this one, may rewrite a verdict.
        await env.end_all_processes()
        before = scope.plan.environment.network_policy if fresh else scope.plan.run_network_policy
        if before is not None and scope.plan.evaluation_network_policy != before:
            await env.set_network_policy(scope.plan.evaluation_network_policy)
        return env
