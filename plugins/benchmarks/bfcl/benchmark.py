"""The benchmark ``bfcl``: which functions does the model call, with which arguments?"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, Field, JsonValue, ValidationError

from ....contracts.base import Contract
from ....contracts.benchmark import Benchmark
from ....contracts.benchmark_params import BenchmarkParams
from ....contracts.component import LocalPath
from ....contracts.context import AttemptContext
from ....contracts.environment import EnvironmentSession
from ....contracts.plan import BenchmarkPlan, ExecutionPlan
from ....contracts.request import RunRequest
from ....contracts.result import RunResult
from ....contracts.task import Message, PreparedTask, TaskInput, TaskSpec
from ..answers import answer_text
from .checker import Call, mismatch
from .dataset import Category, FunctionDoc, PossibleCall, Problem, packaged_folder, problems
from .tools import tool_name, tool_of

_ORACLE = "oracle"


def _default_categories() -> list[Category]:
    return [
        Category.SIMPLE,
        Category.MULTIPLE,
        Category.PARALLEL,
        Category.PARALLEL_MULTIPLE,
        Category.IRRELEVANCE,
    ]


class BfclParams(BenchmarkParams):
    """Parameters of ``bfcl``."""

    path: LocalPath | None = None
    """A folder with data files as in ``bfcl_eval/data``; by default that of the installed package."""
    categories: list[Category] = Field(default_factory=_default_categories, min_length=1)
    """Which categories, in this order; ``live_…`` are the ones that users of the leaderboard have contributed."""


class _Facts(Contract):
    """The metadata of a task."""

    category: Category
    messages: list[dict[str, str]]
    functions: list[FunctionDoc]


class Bfcl(Benchmark[BfclParams]):
    """The model gets a question and functions; its calls are compared with the accepted ones. Nothing is executed."""

    id = "bfcl"
    description = (
        "Function calling, single turn (Berkeley Function Calling Leaderboard): calls against accepted ones"
    )
    Params: ClassVar[type[BaseModel]] = BfclParams
    parallel_attempts_safe = True
    quick_hooks = frozenset({"prepare_task", "evaluate"})

    async def load_tasks(self, request: RunRequest) -> list[TaskSpec]:
        """The problems of all categories. Raises ``DatasetError`` that names file and line."""
        del request
        return await asyncio.to_thread(self._load)

    def _load(self) -> list[TaskSpec]:
        folder = Path(self.params.path).expanduser() if self.params.path else packaged_folder()
        return [
            _task(problem) for category in self.params.categories for problem in problems(folder, category)
        ]

    async def prepare_task(
        self,
        task: TaskSpec,
        env: EnvironmentSession,
        request: RunRequest,
        plan: BenchmarkPlan,
        context: AttemptContext,
    ) -> PreparedTask:
        """The messages and the functions as tools."""
        del env, request, plan, context
        facts = _Facts.model_validate(task.metadata)
        oracle = [call.model_dump(mode="json") for call in _reference(facts, _answers(task))]
        return PreparedTask(
            task_id=task.task_id,
            category=task.category,
            ground_truth=task.ground_truth,
            input=TaskInput(
                prompt=task.question,
                messages=[Message.model_validate(message) for message in facts.messages],
                tools=[tool_of(function) for function in facts.functions],
            ),
            metadata={"oracle_answer": oracle},
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
        """Compare the calls. For ``irrelevance`` no call is right, for ``relevance`` any."""
        del prepared, plan, env, context
        facts = _Facts.model_validate(task.metadata)
        calls = _oracle_calls(result) if request.harness.id == _ORACLE else _calls(result)
        if facts.category.has_answers:
            reason = mismatch(facts.functions, calls, _answers(task))
        elif facts.category is Category.LIVE_RELEVANCE:
            reason = "" if calls else "no function is called"
        else:
            reason = f"{calls[0].name!r} is called, though no function fits" if calls else ""
        made: list[JsonValue] = [call.model_dump(mode="json") for call in calls]
        meta = result.meta.model_copy(
            update={"benchmark": {**result.meta.benchmark, "calls": made, "mismatch": reason}}
        )
        metrics = {**result.metrics, "correct": not reason}
        return result.model_copy(
            update={"metrics": metrics, "meta": meta, "final_answer": made or result.final_answer}
        )


def _task(problem: Problem) -> TaskSpec:
    asked = [message["content"] for message in problem.messages if message["role"] == "user"]
    truth: list[JsonValue] = [json.loads(json.dumps(answer)) for answer in problem.answers]
    return TaskSpec(
        task_id=problem.id,
        question=asked[-1] if asked else "",
        category=problem.category.value,
        ground_truth=truth or None,
        metadata=_Facts(
            category=problem.category, messages=problem.messages, functions=problem.functions
        ).model_dump(mode="json"),
    )


def _answers(task: TaskSpec) -> list[PossibleCall]:
    return Problem.model_validate(
        {
            "id": "",
            "category": task.category,
            "messages": [],
            "functions": [],
            "answers": task.ground_truth or [],
        }
    ).answers


def _calls(result: RunResult) -> list[Call]:
    """The calls of the model's only answer."""
    steps = [step for step in result.trajectory.steps if step.source == "agent"] if result.trajectory else []
    return [Call(name=call.name, arguments=call.arguments) for step in steps for call in step.tool_calls]


def _oracle_calls(result: RunResult) -> list[Call]:
    """The oracle has no way to call; it answers with the calls as JSON."""
    try:
        value = json.loads(answer_text(result.final_answer) or "[]")
        return [Call.model_validate(item) for item in value]
    except (ValueError, TypeError, ValidationError):
        return []


def _reference(facts: _Facts, answers: list[PossibleCall]) -> list[Call]:
    """Calls that are right: of each parameter the first accepted value."""
    if facts.category is Category.LIVE_RELEVANCE:
        return [Call(name=tool_name(facts.functions[0].name), arguments={})]
    calls = []
    for answer in answers:
        for name, accepted in answer.items():
            function = next((item for item in facts.functions if item.name == name), facts.functions[0])
            about = function.parameters.get("properties")
            types = about if isinstance(about, dict) else {}
            arguments = {
                key: _chosen(choices, types.get(key))
                for key, choices in accepted.items()
                if "" not in choices
            }
            required = function.parameters.get("required")
            for key in required if isinstance(required, list) else []:
                if isinstance(key, str) and key in accepted and key not in arguments:
                    arguments[key] = _chosen(accepted[key], types.get(key))
            calls.append(Call(name=tool_name(function.name), arguments=arguments))
    return calls


def _chosen(choices: list[JsonValue], about: JsonValue) -> JsonValue:
    """The first accepted value; inside dictionaries, too, each key has a list of them."""
    value = next((choice for choice in choices if choice != ""), "")
    kind = about.get("type") if isinstance(about, dict) else None
    items = about.get("items") if isinstance(about, dict) else None
    if kind == "dict" and isinstance(value, dict):
        return _chosen_dict(value)
    if isinstance(value, list) and isinstance(items, dict) and items.get("type") == "dict":
        return [_chosen_dict(item) if isinstance(item, dict) else item for item in value]
    return value


def _chosen_dict(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {
        key: next((choice for choice in choices if choice != ""), "")
        for key, choices in value.items()
        if isinstance(choices, list) and "" not in choices
    }
