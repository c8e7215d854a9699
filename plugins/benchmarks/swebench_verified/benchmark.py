"""The benchmark ``swebench_verified``."""

from __future__ import annotations

import asyncio
import shlex
from typing import ClassVar

from pydantic import BaseModel, Field

from ....contracts.benchmark import Benchmark
from ....contracts.context import AttemptContext
from ....contracts.environment import EnvironmentSession
from ....contracts.errors import DatasetError, StageFailure
from ....contracts.issues import IssueCode, IssuePhase, Severity
from ....contracts.plan import BenchmarkPlan, ExecutionPlan
from ....contracts.request import EvaluationMode, RunRequest
from ....contracts.result import RunResult
from ....contracts.task import OracleCommand, PreparedTask, TaskInput, TaskSpec
from ..data_source import DatasetParams, source_of
from ..jsonl import require_unique
from .grading import Report, grade, missing_package, test_spec
from .instance import Instance, InstanceFacts
from .repository import apply_patch, mark_start, patch_of

_PATCH = "model_patch"
_GOLD = ".agentcompass-gold.patch"
_WITHOUT_IMAGES = "host_process"
_LARGEST_LOG_BYTES = 256 * 1024 * 1024
_PROMPT = """\
The repository of {repo} is in {folder}. Solve the following issue by changing its source files; tests that check \
your change are added afterwards, and existing ones must still pass. Do not change tests.

<issue>
{issue}
</issue>"""


class SweBenchVerifiedParams(DatasetParams):
    """Parameters of ``swebench_verified``; rows are those that ``swebench`` 5 reads."""

    default_dataset = "SWE-bench/SWE-bench_Verified"

    folder: str = Field(default="/testbed", min_length=1)
    """Where the repository is; a relative one is below the environment's work directory."""
    prompt: str = _PROMPT
    """What the agent is told; ``{issue}``, ``{repo}`` and ``{folder}`` are filled in."""
    test_timeout_seconds: float = Field(default=1800.0, gt=0)
    """Limit of the tests of one task."""


class SweBenchVerified(Benchmark[SweBenchVerifiedParams]):
    """The agent mends an issue; its patch is applied in a fresh environment and judged there by the project's tests."""

    id = "swebench_verified"
    description = "SWE-bench Verified: issues of Python projects, official images and grading"
    Params: ClassVar[type[BaseModel]] = SweBenchVerifiedParams
    evaluation_environment_mode = EvaluationMode.FRESH
    parallel_attempts_safe = True

    async def load_tasks(self, request: RunRequest) -> list[TaskSpec]:
        """The rows in their order. Raises ``DatasetError``, also when the grading package is missing."""
        return await asyncio.to_thread(self._load, request)

    def _load(self, request: RunRequest) -> list[TaskSpec]:
        problem = missing_package()
        if problem:
            raise DatasetError(problem)
        rows = source_of(self.params).rows(Instance)
        require_unique(rows, lambda row: row.instance_id, "instance_id")
        return [self._task(item.row, request.environment.id) for item in rows]

    def _task(self, row: Instance, environment: str) -> TaskSpec:
        if environment == _WITHOUT_IMAGES and not row.setup_script:
            raise DatasetError(
                f"{row.instance_id} runs in an image ({row.official_image}), which {_WITHOUT_IMAGES} has not: "
                "use --env docker"
            )
        facts = InstanceFacts(
            repo=row.repo,
            version=row.version,
            fail_to_pass=row.FAIL_TO_PASS,
            pass_to_pass=row.PASS_TO_PASS,
            log_parser=row.log_parser,
            eval_type=row.eval_type,
            eval_script=row.eval_script,
            setup_script=row.setup_script,
        )
        gold = f"cd {shlex.quote(self.params.folder)} && git -c safe.directory='*' apply --verbose"
        return TaskSpec(
            task_id=row.instance_id,
            question=row.problem_statement,
            category=row.repo,
            ground_truth=row.patch,
            metadata=facts.model_dump(mode="json"),
            # A task that makes its repository itself needs no image, nor one that fits it.
            image=None if row.setup_script else row.official_image,
            evaluation_timeout_seconds=self.params.test_timeout_seconds,
            oracle=OracleCommand(command=f'gold="$PWD"/{_GOLD}; {gold} "$gold"'),
        )

    async def prepare_task(
        self,
        task: TaskSpec,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> PreparedTask:
        """The issue; the gold patch only for the oracle."""
        del plan, context
        facts, folder = InstanceFacts.model_validate(task.metadata), self._folder(env)
        await _set_up(env, facts, IssuePhase.SETUP)
        await mark_start(env, folder)
        if request.harness.id == "oracle":
            # Outside of git's sight, if the work directory is the repository.
            await env.write(f"{env.workdir}/{_GOLD}", str(task.ground_truth).encode())
            await env.exec(f"[ ! -d .git ] || echo {_GOLD} >> .git/info/exclude", timeout_seconds=60)
        prompt = self.params.prompt
        for name, text in {"repo": facts.repo, "folder": folder, "issue": task.question}.items():
            prompt = prompt.replace(f"{{{name}}}", text)
        return PreparedTask(
            task_id=task.task_id,
            category=task.category,
            ground_truth=task.ground_truth,
            input=TaskInput(prompt=prompt, workspace=folder),
        )

    async def collect_artifacts(
        self,
        task: TaskSpec,
        env: EnvironmentSession,
        result: RunResult,
        request: RunRequest,
        plan: ExecutionPlan,
        context: AttemptContext,
    ) -> RunResult:
        """The agent's patch, in ``extra["model_patch"]``: the only thing that is judged."""
        del task, request, plan
        context.progress("taking the agent's patch")
        patch = await patch_of(env, self._folder(env))
        return result.model_copy(
            update={"extra": {**result.extra, _PATCH: patch.encode("utf-8", "replace").decode()}}
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
        """Apply the patch, run the official evaluation script, grade its log."""
        del prepared, request
        if env is None or plan.evaluation_environment_mode is not EvaluationMode.FRESH:
            message = (
                "swebench_verified is judged in a fresh environment: evaluation_environment_mode 'fresh'"
            )
            raise StageFailure.fatal(IssuePhase.EVALUATE, IssueCode.EVALUATION_FAILED, message)
        patch = result.extra.get(_PATCH)
        if not isinstance(patch, str) or not patch.strip():
            message = "the agent left no patch, which counts as not solved"
            context.report_issue(Severity.WARNING, IssuePhase.EVALUATE, IssueCode.ARTIFACT_MISSING, message)
            return _scored(result, Report(resolved=False), "there is no patch")
        facts, folder = InstanceFacts.model_validate(task.metadata), self._folder(env)
        await _set_up(env, facts, IssuePhase.EVALUATE)
        context.progress("applying the patch")
        problem = await apply_patch(env, folder, patch)
        if problem:
            return _scored(result, Report(resolved=False), problem)
        spec = await asyncio.to_thread(test_spec, task.task_id, task.image or "", facts)
        context.progress("running the tests")
        log = await _test_log(env, str(spec.eval_script))
        report = await asyncio.to_thread(grade, task.task_id, spec, patch, log)
        if report.infra_failure:
            message = f"the log looks as if the environment had failed: {report.infra_failure_reason}"
            context.report_issue(
                Severity.WARNING, IssuePhase.EVALUATE, "swebench_verified.infrastructure", message
            )
        return _scored(result, report, "")

    def _folder(self, env: EnvironmentSession) -> str:
        folder = self.params.folder
        return folder if folder.startswith("/") else f"{env.workdir}/{folder}"


async def _set_up(env: EnvironmentSession, facts: InstanceFacts, phase: IssuePhase) -> None:
    if not facts.setup_script:
        return
    ended = await env.exec(facts.setup_script, timeout_seconds=1800)
    if not ended.ok:
        reason = (ended.stderr.text or ended.stdout.text).strip()[-300:]
        message = f"the task's setup_script failed (status {ended.returncode}): {reason}"
        raise StageFailure.fatal(phase, IssueCode.SETUP_FAILED, message)


async def _test_log(env: EnvironmentSession, script: str) -> bytes:
    """What the evaluation script writes, both streams in one. Raises ``StageFailure`` for a missing bash."""
    path, log = f"{env.workdir}/.agentcompass-eval.sh", f"{env.workdir}/.agentcompass-eval.log"
    await env.write(path, script.encode(), mode=0o755)
    ended = await env.exec(f"bash {shlex.quote(path)} > {shlex.quote(log)} 2>&1")
    if ended.returncode == 127 or ended.returncode is None or ended.returncode < 0:
        message = f"the evaluation script did not run to its end (status {ended.returncode})"
        raise StageFailure.error(IssuePhase.EVALUATE, IssueCode.EVALUATION_FAILED, message)
    try:
        return await env.read(log, max_bytes=_LARGEST_LOG_BYTES)
    except ValueError as error:
        message = f"the tests wrote more than {_LARGEST_LOG_BYTES} bytes"
        raise StageFailure.error(IssuePhase.EVALUATE, IssueCode.EVALUATION_FAILED, message) from error


def _scored(result: RunResult, report: Report, problem: str) -> RunResult:
    facts = {**report.facts(), "problem": problem}
    meta = result.meta.model_copy(update={"benchmark": {**result.meta.benchmark, **facts}})
    return result.model_copy(update={"metrics": {**result.metrics, "correct": report.resolved}, "meta": meta})
