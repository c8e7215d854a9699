"""Questions with short answers, from a JSON Lines file of one's own."""

from __future__ import annotations

import asyncio
import re

from pydantic import Field, JsonValue, field_validator

from ...contracts.base import Contract
from ...contracts.benchmark import Benchmark
from ...contracts.benchmark_params import BenchmarkParams
from ...contracts.component import LocalPath
from ...contracts.context import AttemptContext
from ...contracts.environment import EnvironmentSession
from ...contracts.errors import DatasetError, StageFailure
from ...contracts.issues import IssueCode, IssuePhase
from ...contracts.plan import BenchmarkPlan, ExecutionPlan
from ...contracts.request import RunRequest
from ...contracts.result import RunResult
from ...contracts.task import PreparedTask, TaskInput, TaskSpec
from .answers import answer_text
from .jsonl import NumberedRow, read_jsonl, require_unique
from .literal_patterns import frame_answer, literal_text
from .parsed_numbers import last_number
from .safe_regex import RegexTimeoutError, last_matches
from .scorers import Scorer, exact_match, normalized_match, numeric_match

_MAX_SHOWN_CHARS = 500


class QuestionAnsweringParams(BenchmarkParams):
    """Parameters of the ``qa`` benchmark."""

    path: LocalPath = Field(min_length=1)
    """The data set: ``.jsonl`` or ``.jsonl.gz``, one ``{"id", "question", "answer"}`` a line."""
    scorer: Scorer = Scorer.NORMALIZED
    """How answers are compared, where a line has no ``scorer`` of its own."""
    system_prompt: str | None = None
    """Given to the model before every question."""
    answer_pattern: str | None = None
    """A regular expression with one group, which is the answer; its last match in the text counts."""
    relative_tolerance: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """For ``numeric``: allowed difference as a fraction of the expected number."""
    absolute_tolerance: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """For ``numeric``: allowed difference; the larger of the two tolerances holds."""

    @field_validator("answer_pattern")
    @classmethod
    def _has_one_group(cls, value: str | None) -> str | None:
        if value is None:
            return None
        groups = _compile(value).groups
        if groups != 1:
            raise ValueError(f"must have exactly one group for the answer, {value!r} has {groups}")
        return value


class Question(Contract):
    """One line of the data set."""

    id: str = Field(min_length=1)
    question: str = Field(min_length=1)
    answer: JsonValue
    """A string or number, or a list of accepted ones; regular expressions for the scorer ``regex``."""
    category: str = ""
    scorer: Scorer | None = None

    @field_validator("id")
    @classmethod
    def _not_blank(cls, value: str) -> str:
        if value != value.strip() or not value:
            raise ValueError("must have no white space around it and not be blank")
        return value

    @field_validator("answer")
    @classmethod
    def _is_answer(cls, value: JsonValue) -> JsonValue:
        accepted = value if isinstance(value, list) else [value]
        if not accepted or not all(_is_text_or_number(item) for item in accepted):
            raise ValueError("must be a non-empty string, a number, or a non-empty list of these")
        return value


class QuestionAnswering(Benchmark[QuestionAnsweringParams]):
    """The model answers a question; the answer is compared with the accepted ones."""

    id = "qa"
    description = "Questions with short answers from an own JSONL file: exact, normalized, numeric or regex"
    Params = QuestionAnsweringParams
    parallel_attempts_safe = True
    quick_hooks = frozenset({"prepare_task", "evaluate"})

    async def load_tasks(self, request: RunRequest) -> list[TaskSpec]:
        """Read the questions. Raises ``DatasetError`` that names file and line."""
        del request
        rows = await asyncio.to_thread(read_jsonl, self.params.path, Question)
        require_unique(rows, lambda question: question.id, "id")
        return [self._task(item) for item in rows]

    def _task(self, item: NumberedRow[Question]) -> TaskSpec:
        row = item.row
        scorer = row.scorer or self.params.scorer
        for text in _accepted(row.answer):
            _check_expected(item.place, scorer, text)
        return TaskSpec(
            task_id=row.id,
            question=row.question,
            category=row.category,
            ground_truth=row.answer,
            metadata={"scorer": scorer.value},
        )

    async def prepare_task(
        self,
        task: TaskSpec,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> PreparedTask:
        """The question; with an ``oracle_answer`` where a right answer can be written down."""
        del env, request, plan, context
        oracle = self._oracle_answer(task)
        return PreparedTask(
            task_id=task.task_id,
            category=task.category,
            ground_truth=task.ground_truth,
            input=TaskInput(prompt=task.question, system_prompt=self.params.system_prompt),
            metadata={} if oracle is None else {"oracle_answer": oracle},
        )

    def _oracle_answer(self, task: TaskSpec) -> str | None:
        answer: str | None = _accepted(task.ground_truth)[0]
        if answer is not None and task.metadata["scorer"] == Scorer.REGEX:
            answer = literal_text(answer)
        if answer is not None and self.params.answer_pattern is not None:
            answer = frame_answer(self.params.answer_pattern, answer)
        return answer

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
        """Compare. An answer that is missing, or without the ``answer_pattern``, is wrong.

        Raises ``StageFailure`` when a regular expression of the data set takes too long.
        """
        del prepared, request, plan, env, context
        scorer = Scorer(str(task.metadata["scorer"]))
        accepted = _accepted(task.ground_truth)
        try:
            answer = await self._extract(answer_text(result.final_answer))
            matched = await self._first_match(scorer, answer, accepted) if answer else None
        except RegexTimeoutError as error:
            raise StageFailure.fatal(IssuePhase.EVALUATE, IssueCode.EVALUATION_FAILED, str(error)) from error
        facts: dict[str, JsonValue] = {
            "scorer": scorer.value,
            "extracted_answer": None if answer is None else answer[-_MAX_SHOWN_CHARS:],
            "matched": matched,
        }
        meta = result.meta.model_copy(update={"benchmark": {**result.meta.benchmark, **facts}})
        metrics = {**result.metrics, "correct": matched is not None}
        return result.model_copy(update={"metrics": metrics, "meta": meta})

    async def _extract(self, text: str) -> str | None:
        pattern = self.params.answer_pattern
        if pattern is None or not text:
            return text
        [match] = await last_matches([pattern], text)
        return None if match is None else match[1]

    async def _first_match(self, scorer: Scorer, answer: str, accepted: list[str]) -> str | None:
        """The first accepted answer that ``answer`` satisfies."""
        if scorer is Scorer.REGEX:
            matches = await last_matches(accepted, answer)
            return next((text for text, match in zip(accepted, matches, strict=True) if match), None)
        return next((text for text in accepted if self._matches(scorer, answer, text)), None)

    def _matches(self, scorer: Scorer, answer: str, expected: str) -> bool:
        if scorer is Scorer.EXACT:
            return exact_match(answer, expected)
        if scorer is Scorer.NORMALIZED:
            return normalized_match(answer, expected)
        return numeric_match(
            answer,
            expected,
            relative=self.params.relative_tolerance,
            absolute=self.params.absolute_tolerance,
        )


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None


def _is_text_or_number(value: JsonValue) -> bool:
    if isinstance(value, str):
        return bool(value.strip())
    return isinstance(value, int | float) and not isinstance(value, bool)


def _accepted(answer: JsonValue) -> list[str]:
    return [answer_text(item) for item in (answer if isinstance(answer, list) else [answer])]


def _check_expected(place: str, scorer: Scorer, text: str) -> None:
    if scorer is Scorer.NUMERIC and last_number(text) is None:
        raise DatasetError(f"{place}: 'answer' {text!r} has no number, but its scorer is 'numeric'")
    if scorer is Scorer.REGEX:
        try:
            _compile(text)
        except ValueError as error:
            raise DatasetError(f"{place}: 'answer' {error}") from None
