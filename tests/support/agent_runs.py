"""Runs the hooks of a harness as the runtime does, in a real environment against a real model server."""

from __future__ import annotations

from typing import Any

from model_answers import Reply

from agentcompass.contracts import (
    EnvironmentSession,
    Harness,
    HarnessPlan,
    PreparedTask,
    RunRequest,
    RunResult,
    StageFailure,
    TaskInput,
)
from agentcompass.plugins.testing import RecordingContext

PLAN = HarnessPlan()


def calling(name: str, call_id: str = "c1", text: str = "", /, **arguments: Any) -> Reply:
    """An answer that calls one tool."""
    call = {"id": call_id, "name": name, "arguments": arguments}
    return Reply(text, tool_calls=(call,), stop_reason="tool_calls")


def request_for(base_url: str, harness: str = "terminal_agent", **model: Any) -> RunRequest:
    """A request for the model server."""
    params = {"retry_min_delay_seconds": 0, **model.pop("params", {})}
    spec = {"id": "m", "base_url": base_url, "api_key": "env:KEY", "params": params, **model}
    return RunRequest.model_validate(
        {
            "benchmark": {"id": "b"},
            "harness": {"id": harness},
            "environment": {"id": "host_process"},
            "model": spec,
        }
    )


def context_for() -> RecordingContext:
    """A context that knows the model's key."""
    return RecordingContext("t1", secrets={"env:KEY": "the-model-key"})


def task(prompt: str = "Do it. [task: t1]", **fields: Any) -> PreparedTask:
    """A task with a prompt."""
    return PreparedTask(task_id="t1", input=TaskInput(prompt=prompt, **fields))


async def run_hooks(
    harness: Harness[Any, Any],
    env: EnvironmentSession,
    request: RunRequest,
    prepared: PreparedTask,
    context: RecordingContext,
) -> RunResult:
    """Start, execute, collect, close; what ``execute_task`` raises becomes an issue of the result."""
    session = await harness.start_session(env, request, PLAN, context)
    problems = []
    try:
        await harness.execute_task(session, prepared, request, PLAN, context)
    except StageFailure as failure:
        problems.append(failure.issue)
    result = await harness.collect_result(session, prepared, request, PLAN, context)
    await harness.close_session(session)
    return result.with_issues([*context.issues, *problems])
