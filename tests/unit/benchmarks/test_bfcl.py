"""Function calls against accepted ones: the rules of the leaderboard, and the way to a model and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcompass.contracts import DatasetError, RunResult, ToolCall, Trajectory, TrajectoryStep
from agentcompass.plugins.benchmarks.bfcl import Bfcl, BfclParams
from agentcompass.plugins.benchmarks.bfcl.checker import Call, mismatch
from agentcompass.plugins.benchmarks.bfcl.dataset import FunctionDoc

DATA = Path(__file__).parents[2] / "data" / "bfcl"


def function(name: str = "f", required: tuple[str, ...] = (), **types: Any) -> FunctionDoc:
    properties = {key: value if isinstance(value, dict) else {"type": value} for key, value in types.items()}
    return FunctionDoc(name=name, parameters={"properties": properties, "required": list(required)})


LIST_OF_INTEGERS = {"type": "array", "items": {"type": "integer"}}
LIST_OF_DICTS = {"type": "array", "items": {"type": "dict"}}


@pytest.mark.parametrize(
    ("kind", "value", "accepted", "right"),
    [
        ("integer", 5, [5], True),
        ("integer", 5.0, [5], False),
        ("integer", True, [1], False),
        ("integer", "5", [5], False),
        ("float", 5, [5.0], True),
        ("float", 2.5, [2.5, 3.0], True),
        ("boolean", False, [True], False),
        ("string", "April 1, 2024", ["april 1 2024"], True),
        ("string", "New-York", ["new york"], True),
        ("string", "it's", ['it"s'], True),
        ("string", "Boston", ["New York", ""], False),
        ("string", None, ["x"], False),
        ("integer", "count", ["count"], True),
        ("any", "x", ["X"], True),
        (LIST_OF_INTEGERS, [1, 2], [[1, 2]], True),
        (LIST_OF_INTEGERS, [2, 1], [[1, 2]], False),
        (LIST_OF_INTEGERS, [1.0, 2], [[1, 2]], False),
        ({"type": "array", "items": {"type": "string"}}, ["A b"], [["ab"]], True),
        ({"type": "tuple", "items": {"type": "float"}}, [1.0, 2.0], [[1.0, 2.0]], True),
        ("dict", {"city": "Köln"}, [{"city": ["köln"], "zip": ["", "50667"]}], True),
        ("dict", {"city": "Köln", "x": 1}, [{"city": ["köln"]}], False),
        ("dict", {}, [{"city": ["köln"]}], False),
        (LIST_OF_DICTS, [{"a": 1}, {"a": 2}], [[{"a": [1]}, {"a": [2]}]], True),
        (LIST_OF_DICTS, [{"a": 2}, {"a": 1}], [[{"a": [1]}, {"a": [2]}]], False),
        (LIST_OF_DICTS, [{"a": 1}], [[{"a": [1]}, {"a": [2]}]], False),
        (LIST_OF_DICTS, [1], [[{"a": [1]}]], False),
    ],
)
def test_a_value_is_right_by_type_and_content(
    kind: Any, value: Any, accepted: list[Any], right: bool
) -> None:
    reason = mismatch([function(x=kind)], [Call(name="f", arguments={"x": value})], [{"f": {"x": accepted}}])
    assert (reason == "") is right, reason


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        ([], "0 calls instead of 1"),
        ([Call(name="g", arguments={})], "'g' is called instead of 'a.f'"),
        ([Call(name="a_f", arguments={})], "the required parameter 'x' is missing"),
        ([Call(name="a_f", arguments={"x": 1, "z": 1})], "parameter 'z' is not expected"),
        ([Call(name="a_f", arguments={"x": 1})], "parameter 'y' is missing"),
        ([Call(name="a_f", arguments='{"x": 1')], "the arguments of 'a_f' are no object"),
        ([Call(name="a_f", arguments={"x": 1, "y": 2})], ""),
        ([Call(name="a.f", arguments={"x": 1, "y": 2, "w": 3})], ""),
    ],
)
def test_a_wrong_call_is_told_with_its_reason(calls: list[Call], told: str) -> None:
    described = function("a.f", required=("x",), x="integer", y="integer", z="integer", w="integer")
    found = mismatch([described], calls, [{"a.f": {"x": [1], "y": [2], "w": [3, ""]}}])
    assert told in found and bool(told) == bool(found)


def test_several_calls_may_come_in_any_order_but_each_counts_once() -> None:
    described = [function("f", x="integer"), function("g", x="integer")]
    answers: list[Any] = [{"f": {"x": [1]}}, {"g": {"x": [2]}}]
    one, two = Call(name="f", arguments={"x": 1}), Call(name="g", arguments={"x": 2})
    assert mismatch(described, [two, one], answers) == ""
    assert mismatch(described, [one, one], answers) != ""


def answered(task_id: str, *calls: dict[str, Any]) -> RunResult:
    made = [ToolCall(id=str(number), **call) for number, call in enumerate(calls)]
    return RunResult(
        task_id=task_id,
        final_answer="text",
        trajectory=Trajectory(steps=[TrajectoryStep(step_id=1, source="agent", model="m", tool_calls=made)]),
    )


async def judged(used: Any, task: Any, result: RunResult) -> Any:
    request = used.request.model_copy(
        update={"harness": used.request.harness.model_copy(update={"id": "openai_chat"})}
    )
    return await used.benchmark.evaluate(task, None, result, request, None, None, used.context)


async def test_the_model_is_offered_the_functions_as_tools_and_its_calls_are_judged(
    driver: Callable[..., Any],
) -> None:
    used = driver(Bfcl(BfclParams(path=str(DATA))))
    tasks = {task.category: task for task in await used.load()}
    assert list(tasks) == ["simple_python", "multiple", "parallel", "parallel_multiple", "irrelevance"]
    prepared = await used.prepare(tasks["simple_python"])
    [tool] = prepared.input.tools
    assert tool.name == "geometry_area"
    assert tool.parameters["type"] == "object"
    assert tool.parameters["properties"]["base"]["type"] == "number"
    right = {"name": "geometry_area", "arguments": {"base": 10, "height": 5}}
    assert (await judged(used, tasks["simple_python"], answered("t", right))).metrics == {"correct": True}
    said = await judged(used, tasks["simple_python"], answered("t"))
    assert (said.metrics, said.meta.benchmark["mismatch"]) == ({"correct": False}, "0 calls instead of 1")
    assert (await judged(used, tasks["irrelevance"], answered("t"))).metrics == {"correct": True}
    called = await judged(used, tasks["irrelevance"], answered("t", {"name": "play", "arguments": {}}))
    assert called.metrics == {"correct": False}


async def test_an_answer_in_text_is_no_call(driver: Callable[..., Any]) -> None:
    used = driver(Bfcl(BfclParams(path=str(DATA))))
    [task, *_] = await used.load()
    text = json.dumps([{"name": "geometry_area", "arguments": {"base": 10, "height": 5}}])
    result = answered("t").model_copy(update={"final_answer": text})
    assert (await judged(used, task, result)).metrics == {"correct": False}


async def test_the_oracle_is_right_everywhere(driver: Callable[..., Any]) -> None:
    used = driver(Bfcl(BfclParams(path=str(DATA))))
    for task in await used.load():
        answer = (await used.prepare(task)).metadata["oracle_answer"]
        assert (await used.judge(task, json.dumps(answer))).metrics == {"correct": True}, task.task_id


async def test_questions_without_an_answer_and_missing_files_are_named(
    driver: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "possible_answer").mkdir()
    for name in ("", "possible_answer/"):
        text = (DATA / f"{name}BFCL_v4_multiple.json").read_text()
        (tmp_path / f"{name}BFCL_v4_multiple.json").write_text(text)
    other = {"id": "other", "ground_truth": [{"f": {}}]}
    (tmp_path / "possible_answer/BFCL_v4_multiple.json").write_text(json.dumps(other))
    with pytest.raises(DatasetError, match=r"has no answer for 'multiple_0'"):
        await driver(
            Bfcl(BfclParams.model_validate({"path": str(tmp_path), "categories": ["multiple"]}))
        ).load()
    with pytest.raises(DatasetError, match=r"BFCL_v4_simple_python.json' does not exist"):
        await driver(
            Bfcl(BfclParams.model_validate({"path": str(tmp_path), "categories": ["simple"]}))
        ).load()
