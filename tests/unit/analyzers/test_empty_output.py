"""Analyzer ``empty_output``."""

from typing import Any

import pytest

from agentcompass.contracts import RunResult, TaskStatus


@pytest.mark.parametrize("answer", [None, "", " \n", [], {}])
async def test_an_attempt_without_an_answer_is_empty(findings: Any, answer: Any) -> None:
    result = RunResult(task_id="t", final_answer=answer, status=TaskStatus.RUN_ERROR)
    assert await findings("empty_output", result) == [
        ("empty_answer", None, {"agent_steps": 0, "status": "run_error"})
    ]


@pytest.mark.parametrize("answer", ["x", 0, False, ["a"], {"a": None}])
async def test_anything_else_is_an_answer(findings: Any, answer: Any) -> None:
    assert await findings("empty_output", RunResult(task_id="t", final_answer=answer)) == []


async def test_artifacts_are_output_unless_told_otherwise(findings: Any) -> None:
    result = RunResult(task_id="t", artifacts={"files": ["patch.diff"]})
    assert await findings("empty_output", result) == []
    found = await findings("empty_output", result, artifacts_are_output=False)
    assert [label for label, _, _ in found] == ["empty_answer"]


async def test_a_traceback_of_the_runtime_is_no_output(findings: Any) -> None:
    result = RunResult(task_id="t", artifacts={"execution_diagnostics": "Traceback …"})
    assert [label for label, _, _ in await findings("empty_output", result)] == ["empty_answer"]


async def test_turns_without_text_and_tool_call_are_counted(findings: Any, steps: Any) -> None:
    result = steps(
        {"message": ""},
        {"message": "", "tool_calls": [{"name": "ls"}]},
        {"source": "user", "message": ""},
        {"message": [], "reasoning": "hm"},
        {"message": "done"},
        final_answer="done",
    )
    assert await findings("empty_output", result) == [("empty_turns", 2, {"steps": [1, 4]})]
