"""The benchmark ``terminal_tasks``: small tasks in a work directory, judged by a command.

Four tasks come with it, to try out agents and environments; others from a JSON Lines file.
"""

from __future__ import annotations

import asyncio
from importlib.resources import files as packaged
from pathlib import Path, PurePosixPath
from typing import ClassVar

from pydantic import BaseModel, Field, JsonValue, field_validator

from ...contracts.base import Contract
from ...contracts.benchmark import Benchmark
from ...contracts.benchmark_params import BenchmarkParams
from ...contracts.component import LocalPath
from ...contracts.context import AttemptContext
from ...contracts.environment import EnvironmentSession
from ...contracts.errors import StageFailure
from ...contracts.issues import IssueCode, IssuePhase
from ...contracts.plan import BenchmarkPlan, ExecutionPlan
from ...contracts.request import EvaluationMode, RunRequest
from ...contracts.result import RunResult
from ...contracts.task import PreparedTask, TaskInput, TaskOutput, TaskSpec
from .answers import answer_text
from .jsonl import read_jsonl, require_unique

_SHOWN_BYTES = 4096


class TerminalTasksParams(BenchmarkParams):
    """Parameters of ``terminal_tasks``."""

    path: LocalPath | None = None
    """A ``.jsonl`` or ``.jsonl.gz`` file of own tasks; by default the four built-in ones."""
    check_timeout_seconds: float = Field(default=60.0, gt=0)
    """Limit of a task's check; one that takes longer has failed."""


class TerminalTask(Contract):
    """A line of the file. A task is solved when its check passes and its answer is the expected one."""

    id: str = Field(min_length=1)
    prompt: str = Field(min_length=1)
    category: str = ""
    files: dict[str, str] = Field(default_factory=dict)
    """Text files that are put into the work directory, by relative path."""
    check: str = "true"
    """Goes to ``sh -c`` in the work directory when the agent is done; exit status 0 passes."""
    expected_answer: str | None = None
    """White space around it does not count."""

    @field_validator("files")
    @classmethod
    def _below_the_work_directory(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or not path.name:
                raise ValueError(f"file name {name!r} must be a relative path below the work directory")
        return value


class TerminalTasks(Benchmark[TerminalTasksParams]):
    """The agent works in a directory; a command says whether it did what it should."""

    id = "terminal_tasks"
    description = "Small tasks in a work directory, judged by a command; four built-in ones, or own"
    Params = TerminalTasksParams
    evaluation_environment_mode: ClassVar[EvaluationMode] = EvaluationMode.REUSE
    parallel_attempts_safe = True

    async def load_tasks(self, request: RunRequest) -> list[TaskSpec]:
        """The tasks in the order of the file. Raises ``DatasetError`` naming file and line."""
        del request
        path = Path(self.params.path or str(packaged(__package__) / "data" / "terminal_tasks.jsonl"))
        rows = await asyncio.to_thread(read_jsonl, path, TerminalTask)
        require_unique(rows, lambda task: task.id, "id")
        return [_task(item.row) for item in rows]

    async def prepare_task(
        self,
        task: TaskSpec,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> PreparedTask:
        """Write the task's files; writing them twice changes nothing."""
        del request, plan, context
        row = _row(task)
        for name, content in row.files.items():
            await env.write(f"{env.workdir}/{name}", content.encode())
        wanted = "the answer to the task" if row.expected_answer is not None else None
        return PreparedTask(
            task_id=task.task_id,
            category=task.category,
            ground_truth=task.ground_truth,
            input=TaskInput(prompt=task.question, workspace=env.workdir),
            output=TaskOutput(answer=wanted),
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
        """Compare the answer and run the check. Raises ``StageFailure`` without an environment."""
        del prepared, request, plan, context
        if env is None:
            message = "terminal_tasks needs the agent's environment for its checks: mode 'reuse'"
            raise StageFailure.fatal(IssuePhase.EVALUATE, IssueCode.EVALUATION_FAILED, message)
        row = _row(task)
        answered = row.expected_answer is None or (
            answer_text(result.final_answer).strip() == row.expected_answer.strip()
        )
        checked = await env.exec(
            row.check, cwd=env.workdir, timeout_seconds=self.params.check_timeout_seconds
        )
        facts: dict[str, JsonValue] = {
            "answer_is_expected": answered,
            "check_exit_status": checked.returncode,
            "check_timed_out": checked.timed_out,
            "check_output": (checked.stdout.head + checked.stderr.head)[:_SHOWN_BYTES].decode(
                "utf-8", "replace"
            ),
        }
        meta = result.meta.model_copy(update={"benchmark": {**result.meta.benchmark, **facts}})
        metrics = {**result.metrics, "correct": answered and checked.ok}
        return result.model_copy(update={"metrics": metrics, "meta": meta})


class _Facts(BaseModel):
    """What a task keeps of its line beside the fields that every task has."""

    files: dict[str, str]
    check: str


def _task(row: TerminalTask) -> TaskSpec:
    return TaskSpec(
        task_id=row.id,
        question=row.prompt,
        category=row.category,
        ground_truth=row.expected_answer,
        metadata=_Facts(files=row.files, check=row.check).model_dump(mode="json"),
    )


def _row(task: TaskSpec) -> TerminalTask:
    facts = _Facts.model_validate(task.metadata)
    expected = None if task.ground_truth is None else str(task.ground_truth)
    return TerminalTask(
        id=task.task_id,
        prompt=task.question,
        category=task.category,
        files=facts.files,
        check=facts.check,
        expected_answer=expected,
    )
