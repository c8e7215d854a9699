"""The two harnesses that need no model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from agentcompass.contracts import (
    EnvironmentSession,
    EnvironmentSpec,
    Harness,
    HarnessPlan,
    NetworkPolicy,
    NoParams,
    OpenRequest,
    OracleCommand,
    PreparedTask,
    RunRequest,
    RunResult,
    Severity,
    StageFailure,
    TaskInput,
    TaskSpec,
)
from agentcompass.plugins.environments.host_process import HostProcess, HostProcessParams
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


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[EnvironmentSession]:
    provider = HostProcess(HostProcessParams(root=tmp_path))
    opened = OpenRequest(
        environment_id="o", spec=EnvironmentSpec(id="host_process"), network_policy=NetworkPolicy()
    )
    session = await provider.open(opened)
    yield session
    await provider.close(session.handle)


async def carried_out(
    host: EnvironmentSession, context: RecordingContext, command: OracleCommand
) -> RunResult:
    oracle = Oracle(NoParams())
    plan = oracle.build_plan(TaskSpec(task_id="t", oracle=command), REQUEST)
    assert not plan.quick
    session = await oracle.start_session(host, REQUEST, plan, context)
    await oracle.execute_task(session, task(None), REQUEST, plan, context)
    return await oracle.collect_result(session, task(None), REQUEST, plan, context)


async def test_oracle_runs_the_command_of_a_task_once_even_after_a_crash(host: EnvironmentSession) -> None:
    context = RecordingContext(secrets={"env:KEY": "k"})
    command = OracleCommand(command='echo "$A $B" | tee -a out', env_variables={"A": "a", "B": "env:KEY"})
    assert (await carried_out(host, context, command)).final_answer == "a k"
    assert (await carried_out(host, context.restarted(), command)).final_answer == "a k"
    assert await host.read("out") == b"a k\n"
    assert context.issues == []


async def test_a_reference_solution_that_fails_is_told_beside_the_score(host: EnvironmentSession) -> None:
    context = RecordingContext()
    result = await carried_out(host, context, OracleCommand(command="echo no >&2; exit 3"))
    assert result.final_answer == "no"
    [issue] = context.issues
    assert (issue.severity, issue.code) == (Severity.ERROR, "agent_exit_status")
    assert "status 3: no" in issue.message
