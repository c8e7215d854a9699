"""The benchmark ``pinchbench``: office tasks from Markdown files, judged by checks, a model, or both."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, Field, JsonValue, field_validator

from ....contracts.base import Contract
from ....contracts.benchmark import Benchmark
from ....contracts.benchmark_params import BenchmarkParams
from ....contracts.component import LocalPath
from ....contracts.context import AttemptContext
from ....contracts.environment import EnvironmentSession
from ....contracts.errors import DatasetError, StageFailure
from ....contracts.issues import IssueCode, IssuePhase
from ....contracts.metrics import SCALAR_CONTRACT
from ....contracts.plan import BenchmarkPlan, ExecutionPlan
from ....contracts.request import EvaluationMode, ModelSpec, RunRequest
from ....contracts.result import RunResult
from ....contracts.task import OracleCommand, PreparedTask, TaskInput, TaskSpec
from ...models import model_problem
from ..judging import JudgeSettings, ask_judge, parse_score
from .checks import run_checks, transcript_of
from .judge import judge_prompt
from .task_file import GradingType, TaskFile, WorkspaceFile, read_task_file

_log = logging.getLogger(__name__)


class PinchBenchParams(BenchmarkParams):
    """Parameters of ``pinchbench``."""

    path: LocalPath = Field(min_length=1)
    """A folder with task files (``task_*.md``), or one with ``tasks/`` and ``assets/``."""
    judge: ModelSpec | None = None
    """The model that judges tasks with a rubric, written as a ``model`` section."""
    judge_timeout_seconds: float = Field(default=180.0, gt=0)
    """Limit of one answer of the judge, its retries included."""
    judge_attempts: int = Field(default=2, ge=1, le=10)
    """How often the judge is asked before an answer without a score invalidates the task."""
    automated_only: bool = False
    """Leave out tasks that need a judge."""
    skip_invalid: bool = False
    """Leave out files that cannot be used, named in the log, instead of refusing the data set."""
    python: str = "python3"
    """Command of the Python interpreter inside the environment, for the checks."""
    check_timeout_seconds: float = Field(default=120.0, gt=0)
    """Limit of a task's checks."""

    @field_validator("judge")
    @classmethod
    def _can_be_called(cls, value: ModelSpec | None) -> ModelSpec | None:
        problem = model_problem(value) if value else None
        if problem:
            raise ValueError(problem)
        return value


class _Facts(Contract):
    """The metadata of a task."""

    grading_type: GradingType
    automated_weight: float
    judge_weight: float
    files: list[WorkspaceFile]
    file_digests: dict[str, str]
    """sha256 of the files that come from the data set, by their source."""
    checks: str
    expected_behavior: str
    rubric: str


class PinchBench(Benchmark[PinchBenchParams]):
    """The agent works in a directory; Python checks run there, and a judge reads what it did."""

    id = "pinchbench"
    description = "Tasks of PinchBench (Markdown files): automated checks, a judge model, or both"
    Params: ClassVar[type[BaseModel]] = PinchBenchParams
    metric_contract = SCALAR_CONTRACT
    evaluation_environment_mode = EvaluationMode.REUSE
    parallel_attempts_safe = True

    async def load_tasks(self, request: RunRequest) -> list[TaskSpec]:
        """The tasks by file name. Raises ``DatasetError`` that names what cannot be used."""
        del request
        return await asyncio.to_thread(self._load)

    def _load(self) -> list[TaskSpec]:
        tasks, problems = [], []
        for path in self._files():
            try:
                found = read_task_file(path)
                if self.params.automated_only and found.front.grading_type is not GradingType.AUTOMATED:
                    continue
                tasks.append(self._task(found, str(path)))
            except DatasetError as error:
                problems.append(str(error))
        if problems and not self.params.skip_invalid:
            more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
            raise DatasetError(
                f"{len(problems)} task files cannot be used ('skip_invalid': true leaves them out): "
                f"{'; '.join(problems[:5])}{more}"
            )
        for text in problems:
            _log.warning("left out: %s", text)
        return tasks

    @property
    def _root(self) -> Path:
        """The folder that the sources of workspace files are relative to."""
        path = Path(self.params.path).expanduser().absolute()
        return path.parent if path.name == "tasks" else path

    def _files(self) -> list[Path]:
        folder = self._root / "tasks" if (self._root / "tasks").is_dir() else self._root
        found = sorted(folder.glob("task_*.md"))
        if not found:
            raise DatasetError(f"{folder} has no task_*.md; give a folder of PinchBench tasks")
        return found

    def _task(self, found: TaskFile, place: str) -> TaskSpec:
        front = found.front
        if front.grading_type is not GradingType.AUTOMATED and self.params.judge is None:
            raise DatasetError(
                f"{place} needs a judge: give the benchmark parameter judge, or automated_only"
            )
        digests = {}
        for file in front.workspace_files:
            if file.source is not None:
                digests[file.source] = hashlib.sha256(self._source(file.source, place)).hexdigest()
        facts = _Facts(
            grading_type=front.grading_type,
            automated_weight=front.grading_weights.automated,
            judge_weight=front.grading_weights.llm_judge,
            files=front.workspace_files,
            file_digests=digests,
            checks=found.checks,
            expected_behavior=found.expected_behavior,
            rubric=found.rubric or found.criteria,
        )
        return TaskSpec(
            task_id=front.id,
            question=found.prompt,
            category=front.category,
            metadata=facts.model_dump(mode="json"),
            run_timeout_seconds=front.timeout_seconds,
            oracle=OracleCommand(command=found.solution) if found.solution else None,
        )

    def _source(self, name: str, place: str) -> bytes:
        root = self._root.resolve()
        for folder in (root / "assets", root / "fixtures", root):
            path = (folder / name).resolve()
            try:
                if path.is_relative_to(root) and path.is_file():
                    return path.read_bytes()
            except OSError as error:  # looking at a name that is too long raises, too
                shown = name if len(name) <= 300 else f"{name[:300]}…"
                raise DatasetError(f"{place}: file {shown!r} cannot be read: {error.strerror}") from None
        raise DatasetError(f"{place}: file {name!r} is not among the assets")

    async def prepare_task(
        self,
        task: TaskSpec,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> PreparedTask:
        """Write the workspace files; writing them twice changes nothing."""
        del request, plan, context
        facts = _Facts.model_validate(task.metadata)
        for file in facts.files:
            data = (file.content or "").encode()
            if file.source is not None:
                data = await asyncio.to_thread(self._unchanged, file.source, facts)
            await env.write(f"{env.workdir}/{file.path}", data)
        return PreparedTask(
            task_id=task.task_id,
            category=task.category,
            input=TaskInput(prompt=task.question, workspace=env.workdir),
        )

    def _unchanged(self, source: str, facts: _Facts) -> bytes:
        try:
            data = self._source(source, "this worker's copy of the data set")
        except DatasetError as error:
            raise StageFailure.fatal(IssuePhase.SETUP, IssueCode.TASK_INPUT_INVALID, str(error)) from error
        if hashlib.sha256(data).hexdigest() != facts.file_digests[source]:
            message = f"file {source!r} has changed since the run was started"
            raise StageFailure.fatal(IssuePhase.SETUP, IssueCode.TASK_INPUT_INVALID, message)
        return data

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
        """The mean of the checks, the judge's score, or both by their weights. Raises ``StageFailure``."""
        del prepared, request, plan
        if env is None:
            message = (
                "pinchbench needs the agent's environment for its checks: evaluation_environment_mode 'reuse'"
            )
            raise StageFailure.fatal(IssuePhase.EVALUATE, IssueCode.EVALUATION_FAILED, message)
        facts = _Facts.model_validate(task.metadata)
        transcript = transcript_of(result.trajectory)
        told: dict[str, JsonValue] = {}
        parts: list[tuple[float, float]] = []
        if facts.grading_type is not GradingType.LLM_JUDGE:
            context.progress("running the checks")
            scores = await run_checks(
                env,
                facts.checks,
                transcript,
                python=self.params.python,
                timeout_seconds=self.params.check_timeout_seconds,
            )
            told["checks"] = dict(scores)
            parts.append((facts.automated_weight, sum(scores.values()) / len(scores)))
        if facts.grading_type is not GradingType.AUTOMATED:
            score, judged = await self._judged(task, facts, transcript, env, context)
            told["judge"] = {**judged, "score": score}
            parts.append((facts.judge_weight, score))
        # A task of one kind counts by that alone, whatever its weights.
        total = sum(weight for weight, _ in parts) if len(parts) > 1 else 1.0
        value = sum(weight * score for weight, score in parts) / total if len(parts) > 1 else parts[0][1]
        meta = result.meta.model_copy(update={"benchmark": {**result.meta.benchmark, **told}})
        return result.model_copy(update={"metrics": {**result.metrics, "score": value}, "meta": meta})

    async def _judged(
        self,
        task: TaskSpec,
        facts: _Facts,
        transcript: list[JsonValue],
        env: EnvironmentSession,
        context: AttemptContext,
    ) -> tuple[float, dict[str, JsonValue]]:
        params = self.params
        assert params.judge is not None  # or the task would have been refused when it was loaded
        prompt = await judge_prompt(
            env,
            task=task.question,
            expected=facts.expected_behavior,
            rubric=facts.rubric,
            transcript=transcript,
        )
        settings = JudgeSettings(
            judge=params.judge, timeout_seconds=params.judge_timeout_seconds, attempts=params.judge_attempts
        )
        return await ask_judge(prompt, settings, parse_score, context)
