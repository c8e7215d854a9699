"""The benchmark ``command``: runs commands of a JSON Lines file and compares what they print.

It needs no model and no harness (harness id ``none``), so it tries out an installation, an
environment or a worker fleet.
"""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import PurePosixPath
from typing import ClassVar

from pydantic import BaseModel, Field, field_validator, model_validator

from ...contracts.base import Contract
from ...contracts.benchmark import HarnessFreeBenchmark
from ...contracts.benchmark_params import BenchmarkParams
from ...contracts.component import LocalPath
from ...contracts.context import AttemptContext
from ...contracts.environment import EnvironmentSession, ExecResult
from ...contracts.issues import Issue, IssueCode, IssuePhase, Severity
from ...contracts.plan import BenchmarkPlan, ExecutionPlan
from ...contracts.request import EvaluationMode, RunRequest
from ...contracts.result import Observation, RunResult, ToolCall, Trajectory, TrajectoryStep
from ...contracts.task import PreparedTask, TaskInput, TaskSpec
from .jsonl import NumberedRow, read_jsonl
from .safe_regex import last_matches

ANSWER_CHARACTERS = 64 * 1024
"""Length to which the answer is cut, in its middle: a pattern is looked for at its end."""
_ERROR_CHARACTERS = 8 * 1024
OUTPUT_LIMIT_CODE = "command.output_limit"
OUT_OF_MEMORY_CODE = "command.out_of_memory"


class CommandParams(BenchmarkParams):
    """Which file the tasks are in, and which of them are run."""

    path: LocalPath = Field(min_length=1)
    """A ``.jsonl`` or ``.jsonl.gz`` file on the worker; each line is a :class:`CommandRow`."""


class Expectation(Contract):
    """What a correct command does; every condition that is given must hold."""

    expected_exit_status: int = 0
    expected_stdout: str | None = Field(default=None, max_length=ANSWER_CHARACTERS // 4)
    """The whole of standard output; line feeds at the end do not count."""
    expected_pattern: str | None = None
    """A regular expression that is found in the last 20,000 characters of standard output."""

    @field_validator("expected_pattern")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"{value!r} is not a regular expression: {error}") from None
        return value

    @model_validator(mode="after")
    def _one_of_stdout_and_pattern(self) -> Expectation:
        if self.expected_stdout is not None and self.expected_pattern is not None:
            raise ValueError("expected_stdout and expected_pattern exclude each other")
        return self


class CommandRow(Expectation):
    """A line of the file: one task."""

    id: str
    command: str
    """Goes to ``sh -c`` in the environment's work directory."""
    category: str = ""
    timeout_seconds: float | None = Field(default=None, gt=0)
    files: dict[str, str] = Field(default_factory=dict)
    """Text files that are put into the work directory first, by relative path."""

    @field_validator("id", "command")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be empty")
        return value

    @field_validator("files")
    @classmethod
    def _below_the_work_directory(cls, value: dict[str, str]) -> dict[str, str]:
        for name in value:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or not path.name:
                raise ValueError(f"file name {name!r} must be a relative path below the work directory")
        return value


class CommandOutcome(Contract):
    """What is kept of a finished command, in ``extra["command"]`` of the result."""

    returncode: int | None
    """``None`` after a timeout, negative for a signal."""
    timed_out: bool = False
    output_limit_exceeded: bool = False
    stdout_bytes: int = 0
    stdout_complete: bool = True
    """False when the answer is not the whole of standard output."""
    stderr: str = ""
    seconds: float = 0.0


class CommandBenchmark(HarnessFreeBenchmark[CommandParams]):
    """One command is one task; its answer is what it prints."""

    id = "command"
    description = "Commands from a JSON Lines file, judged by exit status and output; needs no model"
    Params: ClassVar[type[BaseModel]] = CommandParams
    evaluation_environment_mode = EvaluationMode.NONE
    parallel_attempts_safe = True
    uses_model = False
    quick_hooks = frozenset({"evaluate"})

    async def load_tasks(self, request: RunRequest) -> list[TaskSpec]:
        """The tasks in the order of the file. Raises ``DatasetError`` naming file and line."""
        del request
        rows = await asyncio.to_thread(read_jsonl, self.params.path, CommandRow)
        return [_task(item) for item in rows]

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
        facts = _TaskFacts.model_validate(task.metadata)
        for name, content in facts.files.items():
            await env.write(name, content.encode())
        return PreparedTask(
            task_id=task.task_id,
            category=task.category,
            ground_truth=task.ground_truth,
            input=TaskInput(prompt=task.question, workspace=env.workdir),
            metadata={"timeout_seconds": facts.timeout_seconds},
        )

    async def run_task(
        self,
        prepared: PreparedTask,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> RunResult:
        """Run the command; running out of its own time is an ERROR beside a valid fail."""
        del request, plan
        command = prepared.input.prompt
        started_at = time.time()
        # The run budget is the runtime's business: it ends this hook, and what is evaluated is empty.
        limit = _TaskFacts.model_validate(prepared.metadata).timeout_seconds
        finished = await env.exec(command, timeout_seconds=limit)
        step = _step(command, finished, started_at)
        context.record_step(step)
        result = RunResult(
            task_id=prepared.task_id,
            category=prepared.category,
            ground_truth=prepared.ground_truth,
            final_answer=_shortened(finished.stdout.text, ANSWER_CHARACTERS),
            trajectory=Trajectory(steps=[step]),
            extra={"command": _outcome(finished).model_dump(mode="json")},
        )
        return result.with_issues(_issues(finished))

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
        """``correct``: the command ended by itself and did what was expected."""
        del task, request, plan, env, context
        if "command" not in result.extra:  # ended at the run budget, before there was an outcome
            return result.model_copy(update={"metrics": {"correct": False}})
        outcome = CommandOutcome.model_validate(result.extra["command"])
        expected = Expectation.model_validate(prepared.ground_truth)
        correct = await _meets(expected, outcome, str(result.final_answer))
        return result.model_copy(update={"metrics": {"correct": correct}})


class _TaskFacts(Contract):
    """The metadata of a task."""

    files: dict[str, str] = Field(default_factory=dict)
    timeout_seconds: float | None = Field(default=None, gt=0)


def _task(item: NumberedRow[CommandRow]) -> TaskSpec:
    row = item.row
    expected = row.model_dump(mode="json", include=set(Expectation.model_fields))
    return TaskSpec(
        task_id=row.id,
        question=row.command,
        category=row.category,
        ground_truth=expected,
        metadata=_TaskFacts(files=row.files, timeout_seconds=row.timeout_seconds).model_dump(mode="json"),
    )


def _outcome(finished: ExecResult) -> CommandOutcome:
    text = finished.stdout.text
    return CommandOutcome(
        returncode=finished.returncode,
        timed_out=finished.timed_out,
        output_limit_exceeded=finished.output_limit_exceeded,
        stdout_bytes=finished.stdout.total_bytes,
        stdout_complete=not finished.stdout.truncated and len(text) <= ANSWER_CHARACTERS,
        stderr=_shortened(finished.stderr.text, _ERROR_CHARACTERS),
        seconds=finished.seconds,
    )


def _step(command: str, finished: ExecResult, started_at: float) -> TrajectoryStep:
    call = ToolCall(id="1", name="exec", arguments={"command": command})
    seen = {
        "returncode": finished.returncode,
        "stdout": _shortened(finished.stdout.text, _ERROR_CHARACTERS),
        "stderr": _shortened(finished.stderr.text, _ERROR_CHARACTERS),
    }
    return TrajectoryStep(
        step_id=1,
        source="agent",
        timestamp=started_at,
        tool_calls=[call],
        observations=[Observation(tool_call_id="1", content=seen)],
        latency_seconds=finished.seconds,
    )


def _shortened(text: str, limit: int) -> str:
    """At most ``limit`` characters of ``text``, its beginning and its end."""
    if len(text) <= limit:
        return text
    mark = f"\n[… of {len(text)} characters …]\n"
    kept = limit - len(mark)
    head = kept // 2
    return text[:head] + mark + text[-(kept - head) :]


def _issues(finished: ExecResult) -> list[Issue]:
    if finished.timed_out:
        code, message = (
            IssueCode.HARNESS_TIMEOUT.value,
            "the command used up its timeout_seconds and was ended",
        )
    elif finished.output_limit_exceeded:
        code, message = OUTPUT_LIMIT_CODE, "the command was ended because it wrote too much"
    elif finished.oom_killed:
        code, message = OUT_OF_MEMORY_CODE, "the sandbox ran out of memory, and a process was killed for that"
    else:
        return []
    return [Issue(severity=Severity.ERROR, phase=IssuePhase.RUN, code=code, message=message)]


async def _meets(expected: Expectation, outcome: CommandOutcome, answer: str) -> bool:
    if outcome.timed_out or outcome.output_limit_exceeded:
        return False
    if outcome.returncode != expected.expected_exit_status:
        return False
    if expected.expected_stdout is not None:
        # An expectation is far shorter than a complete answer may be: an incomplete one is wrong.
        same = answer.rstrip("\n") == expected.expected_stdout.rstrip("\n")
        return outcome.stdout_complete and same
    if expected.expected_pattern is None:
        return True
    return (await last_matches([expected.expected_pattern], answer))[0] is not None
