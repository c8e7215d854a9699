"""The two harnesses that need no model."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import JsonValue

from agentcompass.contracts import (
    Harness,
    HarnessPlan,
    NoParams,
    PreparedTask,
    RunRequest,
    RunResult,
    Severity,
    StageFailure,
    TaskInput,
)
from agentcompass.plugins.harnesses.nop import Nop
from agentcompass.plugins.harnesses.oracle import Oracle
from agentcompass.plugins.testing import RecordingContext

PLAN = HarnessPlan()
REQUEST = RunRequest.model_validate(
    {"benchmark": {"id": "b"}, "harness": {"id": "h"}, "environment": {"id": "e"}, "model": {"id": "none"}}
)


def task(ground_truth: JsonValue, **metadata: JsonValue) -> PreparedTask:
    return PreparedTask(
        task_id="t", ground_truth=ground_truth, input=TaskInput(prompt="?"), metadata=metadata
    )


async def run(harness: Harness[Any, Any], prepared: PreparedTask, context: RecordingContext) -> RunResult:
    environment: Any = None
    session = await harness.start_session(environment, REQUEST, PLAN, context)
    await harness.execute_task(session, prepared, REQUEST, PLAN, context)
    result = await harness.collect_result(session, prepared, REQUEST, PLAN, context)
    await harness.close_session(session)
    return result


@pytest.mark.parametrize(
    ("prepared", "answer"),
    [
        (task("42"), "42"),
        (task(42), "42"),
        (task("42", oracle_answer="def f(): return 42"), "def f(): return 42"),
        (task(None, oracle_answer="x"), "x"),
        (task(["ä", 1]), '["ä", 1]'),
        (task({"a": None}), '{"a": null}'),
        (task(""), ""),
    ],
)
async def test_oracle_answers_with_the_reference(prepared: PreparedTask, answer: str) -> None:
    context = RecordingContext()
    result = await run(Oracle(NoParams()), prepared, context)
    assert result.final_answer == answer
    assert [step.message for step in context.steps] == [answer]


async def test_oracle_refuses_a_task_without_reference() -> None:
    with pytest.raises(StageFailure, match="'t' has neither an oracle_answer nor a ground truth") as caught:
        await run(Oracle(NoParams()), task(None), RecordingContext())
    assert (caught.value.issue.severity, caught.value.issue.code) == (Severity.FATAL, "task_input_invalid")


async def test_nop_answers_nothing() -> None:
    result = await run(Nop(NoParams()), task("42"), RecordingContext())
    assert (result.final_answer, result.ground_truth, result.issues) == ("", "42", [])


@pytest.mark.parametrize("harness", [Oracle, Nop])
def test_both_need_no_model_and_are_quick(harness: type[Harness[Any, Any]]) -> None:
    assert not harness.uses_model
    assert harness.parallel_attempts_safe
    assert harness.quick_hooks == {"start_session", "execute_task", "collect_result", "close_session"}
