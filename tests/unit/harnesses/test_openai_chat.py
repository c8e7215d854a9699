"""The chat harness against a real HTTP endpoint on loopback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from model_server import ModelServer, Reply

from agentcompass.contracts import (
    HarnessPlan,
    IssueCode,
    Message,
    ModelSpec,
    PreparedTask,
    RunRequest,
    RunResult,
    Severity,
    StageFailure,
    TaskInput,
    TaskStatus,
    ToolCall,
    ToolDefinition,
    Usage,
)
from agentcompass.plugins.harnesses.openai_chat import ChatSession, OpenAIChat, OpenAIChatParams
from agentcompass.plugins.testing import RecordingContext

PLAN = HarnessPlan()
NO_ENVIRONMENT: Any = None  # the harness touches the environment only for images in it


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer(api_key="right-key") as running:
        yield running


def request_for(server: ModelServer, protocol: str = "openai-chat", **params: object) -> RunRequest:
    model = {"id": "m", "base_url": server.base_url, "api_key": "env:KEY", "api_protocol": protocol}
    return RunRequest.model_validate(
        {
            "benchmark": {"id": "b"},
            "harness": {"id": "openai_chat"},
            "environment": {"id": "host_process"},
            "model": {**model, "params": {"retry_min_delay_seconds": 0, **params}},
        }
    )


def context_for(deadline: float | None = None) -> RecordingContext:
    return RecordingContext(deadline=deadline, secrets={"env:KEY": "right-key"})


def task(**fields: Any) -> PreparedTask:
    return PreparedTask(task_id="t1", category="c", ground_truth="4", input=TaskInput(**fields))


async def run(
    request: RunRequest,
    prepared: PreparedTask,
    context: RecordingContext,
    params: OpenAIChatParams | None = None,
) -> RunResult:
    harness = OpenAIChat(params or OpenAIChatParams())
    session = await harness.start_session(NO_ENVIRONMENT, request, PLAN, context)
    await harness.execute_task(session, prepared, request, PLAN, context)
    result = await harness.collect_result(session, prepared, request, PLAN, context)
    await harness.close_session(session)
    return result


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses", "anthropic"])
async def test_the_text_is_the_answer_over_every_protocol(server: ModelServer, protocol: str) -> None:
    server.script("2 + 2?", Reply("4", reasoning="two and two", prompt_tokens=9, completion_tokens=1))
    context = context_for()
    result = await run(
        request_for(server, protocol), task(system_prompt="Be brief.", prompt="2 + 2?"), context
    )

    assert (result.task_id, result.category, result.ground_truth) == ("t1", "c", "4")
    assert (result.final_answer, result.status, result.issues) == ("4", TaskStatus.COMPLETED, [])
    assert result.trajectory is not None
    steps = result.trajectory.steps
    assert [(step.step_id, step.source, step.message) for step in steps] == [
        (1, "system", "Be brief."),
        (2, "user", "2 + 2?"),
        (3, "agent", "4"),
    ]
    assert steps[2].reasoning == "two and two"
    assert steps[2].usage == Usage(prompt_tokens=9, completion_tokens=1)
    assert (steps[2].stop_reason, steps[2].model) == ("stop", "m")
    assert steps[2].latency_seconds is not None and 0 < steps[2].latency_seconds < 30
    assert context.steps == steps


async def test_messages_and_tools_of_the_task_are_sent(server: ModelServer) -> None:
    call = {"id": "c9", "name": "add", "arguments": {"a": 1}}
    server.script("add", Reply(tool_calls=(call,), stop_reason="tool_calls"))
    prepared = task(
        prompt="not used",
        messages=[Message(role="user", content="please add")],
        tools=[ToolDefinition(name="add", description="adds")],
    )
    result = await run(request_for(server), prepared, context_for())

    assert [message["content"] for message in server.calls[0].body["messages"]] == ["please add"]
    assert server.calls[0].body["tools"][0]["function"]["name"] == "add"
    assert result.trajectory is not None
    assert result.trajectory.steps[-1].tool_calls == [ToolCall(id="c9", name="add", arguments={"a": 1})]
    assert result.issues == []


async def test_model_params_are_sent_and_the_harness_limit_wins(server: ModelServer) -> None:
    request = request_for(server, temperature=0.5, max_tokens=10, top_k=3)
    await run(request, task(prompt="hi"), context_for(), OpenAIChatParams(max_tokens=20, system_prompt="S"))
    assert server.calls[0].body == {
        "model": "m",
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "hi"}],
        "temperature": 0.5,
        "max_tokens": 20,
        "top_k": 3,
    }


async def test_a_second_run_of_the_hooks_does_not_call_the_model_again(server: ModelServer) -> None:
    context = context_for()
    first = await run(request_for(server), task(prompt="[task: t1] hi"), context)
    second = await run(request_for(server), task(prompt="[task: t1] hi"), context.restarted())
    assert second == first
    assert server.counts["t1"] == 1
    assert context.checkpoints_saved == 1


async def test_a_checkpoint_of_another_version_is_not_used(server: ModelServer) -> None:
    context = context_for()
    await context.save_checkpoint({"answer": "old"})
    result = await run(request_for(server), task(prompt="hi"), context)
    assert result.final_answer == "ok"
    assert len(server.calls) == 1


async def test_an_empty_answer_is_an_error_beside_the_result(server: ModelServer) -> None:
    server.script("hi", Reply("", reasoning="so many thoughts", stop_reason="length"))
    result = await run(request_for(server), task(prompt="hi"), context_for())
    assert [(issue.severity, issue.code) for issue in result.issues] == [
        (Severity.ERROR, IssueCode.MODEL_EMPTY_OUTPUT)
    ]
    assert (result.final_answer, result.status) == ("", TaskStatus.RUN_ERROR)
    assert result.trajectory is not None
    assert result.trajectory.steps[-1].reasoning == "so many thoughts"


async def test_a_truncated_answer_keeps_its_stop_reason_and_is_no_issue(server: ModelServer) -> None:
    server.script("hi", Reply("The answer is", stop_reason="length"))
    result = await run(request_for(server), task(prompt="hi"), context_for())
    assert result.trajectory is not None
    assert (result.trajectory.steps[-1].stop_reason, result.issues) == ("length", [])


async def test_what_is_there_is_collected_after_a_failed_call(server: ModelServer) -> None:
    server.script("hi", Reply(status=400, message="prompt too long", code="context_length_exceeded"))
    harness = OpenAIChat(OpenAIChatParams())
    request, context, prepared = request_for(server), context_for(), task(prompt="hi")
    session = await harness.start_session(NO_ENVIRONMENT, request, PLAN, context)
    with pytest.raises(StageFailure, match=r"HTTP 400 from 127\.0\.0\.1: prompt too long"):
        await harness.execute_task(session, prepared, request, PLAN, context)
    result = await harness.collect_result(session, prepared, request, PLAN, context)
    assert result.final_answer is None
    assert result.trajectory is not None
    assert [step.source for step in result.trajectory.steps] == ["user"]
    assert context.checkpoints_saved == 0


async def test_the_deadline_of_the_run_phase_bounds_the_call(server: ModelServer) -> None:
    server.script("hi", Reply(hang=True))
    with pytest.raises(StageFailure) as caught:
        await run(request_for(server), task(prompt="hi"), context_for(deadline=time.time() + 0.2))
    assert caught.value.issue.code == IssueCode.MODEL_TIMEOUT
    assert len(server.calls) == 1


async def test_cancelling_the_run_ends_the_call_at_once(server: ModelServer) -> None:
    server.script("hi", Reply(hang=True))
    running = asyncio.create_task(run(request_for(server), task(prompt="hi"), context_for()))
    await server.wait_for_calls(1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_missing_secret_is_named_and_nothing_is_sent(server: ModelServer) -> None:
    with pytest.raises(StageFailure, match="env:KEY"):
        await run(request_for(server), task(prompt="hi"), RecordingContext())
    assert server.calls == []


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ({"base_url": "http://h/v1"}, None),
        ({"api_key": "env:KEY"}, None),
        ({}, "neither base_url nor api_key"),
        ({"base_url": "http://h/v1", "params": {"temperature": "hot"}}, "temperature"),
        ({"base_url": "http://h:99999"}, "no usable host and port"),
    ],
)
def test_supports_says_why_not(model: dict[str, Any], reason: str | None) -> None:
    environment = RunRequest.model_validate(
        {"benchmark": {"id": "b"}, "harness": {"id": "h"}, "environment": {"id": "e"}, "model": {"id": "m"}}
    ).environment
    answer = OpenAIChat(OpenAIChatParams()).supports(environment, ModelSpec(id="m", **model))
    assert answer is None if reason is None else reason in (answer or "")


def test_a_session_starts_empty() -> None:
    session = ChatSession(NO_ENVIRONMENT)
    assert (session.conversation, session.turn) == ([], None)
