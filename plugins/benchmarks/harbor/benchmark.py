"""The benchmark ``harbor``: folders with an instruction, an environment, tests and a solution."""

from __future__ import annotations

import asyncio
import logging
from typing import ClassVar

from pydantic import BaseModel

from ....contracts.benchmark import Benchmark
from ....contracts.context import AttemptContext
from ....contracts.environment import EnvironmentSession
from ....contracts.errors import AgentCompassError, DatasetError, StageFailure, UsageError
from ....contracts.issues import IssueCode, IssuePhase, Severity
from ....contracts.metrics import MetricContract, MetricKind
from ....contracts.plan import BenchmarkPlan, ExecutionPlan
from ....contracts.request import EvaluationMode, RunRequest
from ....contracts.result import RunResult
from ....contracts.task import Message, PreparedTask, TaskInput, TaskSpec
from .checks import require_image
from .commands import make_log_folders, wait_until_healthy
from .facts import HarborFacts
from .folder import InvalidTaskError, TaskFolder
from .params import HarborParams
from .paths import SandboxPaths
from .sources import Candidate, candidates, folder_of, locate
from .steps import begin_step, combined, missed
from .tasks import read_task
from .verifier import grade, require_interpreter, upload_solution, upload_tests

_log = logging.getLogger(__name__)
_SHOWN_TASKS = 5
_ORACLE = "oracle"


class Harbor(Benchmark[HarborParams]):
    """The agent works in the task's environment; the task's own script says what that is worth."""

    id = "harbor"
    description = (
        "Task folders in Harbor's format (Terminal-Bench 2 and others): local, from git, or a registry"
    )
    Params: ClassVar[type[BaseModel]] = HarborParams
    metric_contract = MetricContract(
        primary="reward", metrics={"reward": MetricKind.SCALAR, "correct": MetricKind.BINARY}
    )
    evaluation_environment_mode = EvaluationMode.REUSE
    parallel_attempts_safe = True

    async def load_tasks(self, request: RunRequest) -> list[TaskSpec]:
        """The tasks by name. Raises ``DatasetError`` that names those which cannot be run."""
        return await asyncio.to_thread(self._load, request)

    def _load(self, request: RunRequest) -> list[TaskSpec]:
        tasks, invalid = [], []
        for candidate in self._wanted(candidates(self.params)):
            try:
                task, unknown = read_task(candidate, self.params, request.environment.id)
                require_image(task, request.environment)
            except InvalidTaskError as error:
                invalid.append(f"{candidate.name}: {error}")
                continue
            tasks.append(task)
            if unknown:
                _log.warning(
                    "task %s: task.toml has unknown keys: %s", candidate.name, ", ".join(unknown[:20])
                )
        if invalid and not self.params.skip_invalid:
            more = f"; and {len(invalid) - _SHOWN_TASKS} more" if len(invalid) > _SHOWN_TASKS else ""
            raise DatasetError(
                f"{len(invalid)} of {len(invalid) + len(tasks)} tasks cannot be run ('skip_invalid': true leaves "
                f"them out): {'; '.join(invalid[:_SHOWN_TASKS])}{more}"
            )
        for text in invalid:
            _log.warning("left out: task %s", text)
        return tasks

    def _wanted(self, found: list[Candidate]) -> list[Candidate]:
        """Those of ``sample_ids``, so that a task which nobody asked for is not in the way."""
        wanted = self.params.sample_ids
        if wanted is None:
            return found
        missing = sorted(set(wanted) - {candidate.name for candidate in found})
        if missing:
            raise UsageError(f"benchmark 'harbor' has no task {', '.join(map(repr, missing[:5]))}")
        return [candidate for candidate in found if candidate.name in set(wanted)]

    def build_plan(self, task: TaskSpec, request: RunRequest) -> BenchmarkPlan:
        """How the environments are made, of the agent and of a separate verifier."""
        del request
        facts = HarborFacts.of(task)
        folder = folder_of(self.params, facts.source)
        setup = facts.setup
        if facts.builds_image:
            setup = setup.model_copy(update={"build_context": f"{folder}/environment"})
        if facts.compose_file:
            setup = setup.model_copy(update={"compose_file": f"{folder}/environment/{facts.compose_file}"})
        evaluation = facts.verifier_setup
        if evaluation is not None and facts.verifier_context:
            evaluation = evaluation.model_copy(update={"build_context": f"{folder}/{facts.verifier_context}"})
        return BenchmarkPlan(
            setup=setup, evaluation_setup=evaluation, evaluation_resources=facts.verifier_resources
        )

    async def prepare_task(
        self,
        task: TaskSpec,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> PreparedTask:
        """The folders that tasks count on, and what a step begins with; the solution only for the oracle."""
        del plan
        facts, paths = HarborFacts.of(task), SandboxPaths.of(request.environment.id, env.workdir)
        folder = await self._folder(facts, IssuePhase.SETUP)
        await make_log_folders(env, paths)
        if facts.healthcheck is not None and (facts.step is None or facts.step.first):
            await wait_until_healthy(env, facts.healthcheck, context)
        if facts.step is not None:
            await begin_step(facts, facts.step, folder, env, paths, context)
        if facts.uploads_tests and not facts.separate_verifier:
            await require_interpreter(env, folder, facts.test_script, IssuePhase.SETUP)
        if request.harness.id == _ORACLE:
            if facts.solution is None:
                message = "the task has no solution/solve.sh for the oracle to run"
                raise StageFailure.fatal(IssuePhase.SETUP, IssueCode.TASK_INPUT_INVALID, message)
            await upload_solution(folder, facts.solution, env, paths)
        prompt = paths.rewritten(task.question)
        before = task.conversation
        return PreparedTask(
            task_id=task.task_id,
            category=task.category,
            input=TaskInput(
                prompt=prompt,
                messages=[*before, Message(role="user", content=prompt)] if before else [],
                workspace=env.workdir,
                mcp_servers=task.mcp_servers,
                skills_dir=task.skills_dir,
            ),
        )

    async def evaluate(
        self,
        task: TaskSpec,
        prepared: PreparedTask,
        result: RunResult,
        request: RunRequest,
        plan: ExecutionPlan,
        env: EnvironmentSession | None,
        context: AttemptContext,
    ) -> RunResult:
        """Run the tests. No reward, or an unreadable one, is a valid 0 with a WARNING.

        Raises ``StageFailure`` when the verifier could not be prepared, or was killed.
        """
        del prepared, plan
        if env is None:
            message = (
                "harbor needs an environment for its tests: evaluation_environment_mode 'reuse' or 'fresh'"
            )
            raise StageFailure.fatal(IssuePhase.EVALUATE, IssueCode.EVALUATION_FAILED, message)
        facts, paths = HarborFacts.of(task), SandboxPaths.of(request.environment.id, env.workdir)
        if facts.uploads_tests:
            context.progress("uploading the tests")
            folder = await self._folder(facts, IssuePhase.EVALUATE)
            await upload_tests(folder, facts, env, paths)
            if facts.separate_verifier:
                await require_interpreter(env, folder, facts.test_script, IssuePhase.EVALUATE)
        context.progress("running the tests")
        grading = await grade(env, facts, paths)
        reward = grading.rewards.reward if grading.rewards else 0.0
        if grading.rewards is None:
            context.report_issue(
                Severity.WARNING, IssuePhase.EVALUATE, IssueCode.REWARD_UNREADABLE, grading.problem
            )
        metrics = {**result.metrics, "reward": reward, "correct": reward >= 1.0}
        meta = result.meta.model_copy(update={"benchmark": {**result.meta.benchmark, **grading.facts()}})
        return result.model_copy(update={"metrics": metrics, "meta": meta})

    def stops_after_step(self, task: TaskSpec, number: int, scored: RunResult) -> str:
        """A step whose ``min_reward`` was missed is the last."""
        return missed(HarborFacts.of(task.steps[number - 1]), scored)

    def combine_steps(self, task: TaskSpec, scored: list[RunResult], result: RunResult) -> RunResult:
        """The mean over all declared steps, or the last one's reward, as the task says."""
        stopped = (
            "" if len(scored) == len(task.steps) else self.stops_after_step(task, len(scored), scored[-1])
        )
        return combined(task, scored, result, stopped)

    async def _folder(self, facts: HarborFacts, phase: IssuePhase) -> TaskFolder:
        """The task's folder on this worker; what is wrong with it is this task's loss only."""
        try:
            return await asyncio.to_thread(locate, self.params, facts.source)
        except AgentCompassError as error:
            raise StageFailure.fatal(phase, IssueCode.TASK_INPUT_INVALID, str(error)) from error
