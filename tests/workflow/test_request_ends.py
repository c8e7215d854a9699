"""How a request ends: stopped, paused and resumed, with attempts that were lost, or refused."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from activity_fakes import FakeActivities, Gate, for_task, in_turn, issue, plan, raising, retrying
from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.exceptions import ApplicationError
from workflow_server import run_request, stage, until

from agentcompass.contracts.activities import (
    CLOSE_ENVIRONMENT,
    DISCARD_REQUEST,
    FINALIZE_REQUEST,
    PENDING_TASKS,
    PREPARE_REQUEST,
    RUN_HARNESS,
    SAVE_ATTEMPT,
)
from agentcompass.contracts.issues import IssueCode
from agentcompass.contracts.launch import LaunchRuntime
from agentcompass.contracts.workflows import (
    PARKED_SIGNAL,
    PAUSE_SIGNAL,
    READY_SIGNAL,
    RESUME_SIGNAL,
    STOP_SIGNAL,
)

REFUSED = issue(code=IssueCode.MODEL_AUTHENTICATION, message="401: the key is wrong")


def broken(_: Any) -> None:
    raise ApplicationError("a bug", type="internal_error", non_retryable=True)


async def state_is(handle: WorkflowHandle[Any, Any], state: str) -> bool:
    return bool((await handle.query("status"))["state"] == state)


@pytest.mark.parametrize(
    ("arguments", "status", "error"),
    [
        (["timed_out", "the launch ran for 5 s"], "timed_out", "the launch ran for 5 s"),
        (["cancelled", "interrupted"], "cancelled", "interrupted"),
        (["nonsense"], "cancelled", "nonsense"),
        ([], "cancelled", "cancelled"),
    ],
)
async def test_stop_cancels_what_runs_and_ends_with_its_status(
    client: Client, arguments: list[str], status: str, error: str
) -> None:
    fakes, gate = FakeActivities(["a", "b", "c"]), Gate()
    fakes.on(RUN_HARNESS, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.request(task_concurrency=2)
        await until(lambda: standing(gate, 2))
        await handle.signal(STOP_SIGNAL, args=arguments)
        result = await handle.result()
    assert (result.status, result.error) == (status, error)
    assert gate.cancelled == 2
    assert len(fakes.inputs(CLOSE_ENVIRONMENT)) == 2
    assert fakes.saved == []  # an attempt that was stopped is no result
    assert [(final.status, final.error) for final in fakes.inputs(FINALIZE_REQUEST)] == [(status, error)]


async def standing(gate: Gate, count: int) -> bool:
    return gate.standing == count


async def test_cancelling_the_workflow_is_a_stop(client: Client) -> None:
    fakes, gate = FakeActivities(["a"]), Gate()
    fakes.on(RUN_HARNESS, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.request()
        await gate.reached.wait()
        await handle.cancel()
        result = await handle.result()
    assert result.status == "cancelled"
    assert len(fakes.inputs(CLOSE_ENVIRONMENT)) == 1


async def test_a_stop_reaches_the_preparation(client: Client) -> None:
    fakes, gate = FakeActivities(["a"]), Gate()
    fakes.on(PREPARE_REQUEST, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.request()
        await gate.reached.wait()
        await handle.signal(STOP_SIGNAL, args=["timed_out", "too long"])
        result = await handle.result()
    assert gate.cancelled == 1
    assert (result.status, result.run_dir, result.exit_code) == ("timed_out", "", 1)
    assert FINALIZE_REQUEST.name not in fakes.names()


async def test_a_preparation_that_does_not_listen_does_not_outlive_the_grace(client: Client) -> None:
    fakes, reached, over = FakeActivities(["a"]), asyncio.Event(), asyncio.Event()

    async def deaf(_: Any) -> None:
        reached.set()
        while not over.is_set():
            activity.heartbeat()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(over.wait(), 0.1)

    fakes.on(PREPARE_REQUEST, deaf)
    async with stage(client, fakes) as scene:
        handle = await scene.request(runtime=LaunchRuntime(cleanup_grace_seconds=7))
        await reached.wait()
        await handle.signal(STOP_SIGNAL, args=["cancelled", "enough"])
        result = await handle.result()
        over.set()
    assert (result.status, result.run_dir) == ("cancelled", "")
    assert fakes.inputs(DISCARD_REQUEST) == fakes.inputs(PREPARE_REQUEST)


async def test_a_refused_key_pauses_the_request_until_it_is_resumed(client: Client) -> None:
    fakes = FakeActivities(["a", "b", "c"], plan=plan(retry=retrying(0)))
    fakes.on(RUN_HARNESS, in_turn(raising(REFUSED)))
    async with stage(client, fakes) as scene:
        handle = await scene.request(task_concurrency=1)
        await until(lambda: state_is(handle, "paused"))
        status = await handle.query("status")
        assert status["message"].startswith("401: the key is wrong (no other attempt is started")
        assert len(fakes.inputs(RUN_HARNESS)) == 1
        await handle.signal(RESUME_SIGNAL)
        result = await handle.result()
    assert result.status == "completed"
    runs = [(input.ref.task_id, input.ref.execution) for input in fakes.inputs(RUN_HARNESS)]
    assert runs == [("a", 1), ("a", 2), ("b", 1), ("c", 1)]
    # Executed again, but not as a retry: there was no budget for one.
    assert [(saved.retry_count, saved.issues) for saved in fakes.saved] == [(0, [])] * 3


async def test_a_paused_request_starts_nothing_and_finishes_what_runs(client: Client) -> None:
    fakes, gate = FakeActivities(["a", "b"]), Gate()
    fakes.on(RUN_HARNESS, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.request(task_concurrency=1)
        await gate.reached.wait()
        await handle.signal(PAUSE_SIGNAL)
        gate.opened.set()
        await scene.attempt_of("a").result()
        status = await handle.query("status")
        assert (status["state"], status["message"]) == ("paused", "paused by an operator")
        assert len(fakes.inputs(RUN_HARNESS)) == 1
        await handle.signal(RESUME_SIGNAL)
        assert (await handle.result()).status == "completed"


async def test_a_paused_request_can_be_stopped(client: Client) -> None:
    fakes = FakeActivities(["a"])
    fakes.on(RUN_HARNESS, raising(REFUSED))
    async with stage(client, fakes) as scene:
        handle = await scene.request()
        await until(lambda: state_is(handle, "paused"))
        await handle.signal(STOP_SIGNAL, args=["cancelled", "never mind"])
        assert (await handle.result()).status == "cancelled"


async def test_a_cancelled_attempt_is_recorded_and_the_request_goes_on(client: Client) -> None:
    fakes, gate = FakeActivities(["a", "b"]), Gate()
    fakes.on(RUN_HARNESS, for_task("a", gate))
    async with stage(client, fakes) as scene:
        handle = await scene.request(task_concurrency=1)
        await gate.reached.wait()
        await scene.attempt_of("a").cancel()
        result = await handle.result()
    assert result.status == "completed"
    assert [
        (saved.ref.task_id, saved.cancelled, [found.code for found in saved.issues]) for saved in fakes.saved
    ] == [("a", True, ["cancelled"]), ("b", False, [])]


async def test_a_crashed_attempt_is_recorded_and_the_request_goes_on(client: Client) -> None:
    fakes = FakeActivities(["a", "b"])
    fakes.on(SAVE_ATTEMPT, in_turn(broken))
    async with stage(client, fakes) as scene:
        result = await (await scene.request(task_concurrency=1)).result()
    assert result.status == "completed"
    assert [(saved.ref.task_id, saved.issues) for saved in fakes.saved] == [
        ("a", [issue(code="internal_error", message="a bug")]),
        ("b", []),
    ]


async def test_a_task_that_cannot_even_be_recorded_costs_that_task_only(client: Client) -> None:
    fakes = FakeActivities(["a", "b"])
    fakes.on(SAVE_ATTEMPT, for_task("a", broken))
    async with stage(client, fakes) as scene:
        result = await (await scene.request(request=run_request(attempts={"k": 2}))).result()
    assert result.status == "completed"
    assert [(saved.ref.task_id, saved.ref.attempt) for saved in fakes.saved] == [("b", 1), ("b", 2)]


async def test_an_attempt_that_runs_already_is_adopted(client: Client) -> None:
    fakes, gate = FakeActivities(["a", "b"]), Gate()
    fakes.on(RUN_HARNESS, for_task("a", gate))
    async with stage(client, fakes) as scene:
        first = await scene.request(task_concurrency=1)
        await gate.reached.wait()
        await first.terminate()  # its attempt goes on without it
        second = await scene.request(task_concurrency=1)
        await until(lambda: adopted(second))
        gate.opened.set()
        result = await second.result()
    assert result.status == "completed"
    assert [saved.ref.task_id for saved in fakes.saved] == ["a", "b"]


async def adopted(handle: WorkflowHandle[Any, Any]) -> bool:
    return any(
        event.activity_task_scheduled_event_attributes.activity_type.name == "await_attempts"
        for event in (await handle.fetch_history()).events
    )


async def test_a_task_list_that_cannot_be_read_fails_the_request(client: Client) -> None:
    fakes = FakeActivities(["a"])
    fakes.on(PENDING_TASKS, broken)
    async with stage(client, fakes) as scene:
        result = await (await scene.request()).result()
    assert (result.status, result.error) == ("failed", "a bug")


async def test_a_summary_that_cannot_be_made_is_told_with_the_run_directory(client: Client) -> None:
    fakes = FakeActivities(["a"])
    fakes.on(FINALIZE_REQUEST, broken)
    async with stage(client, fakes) as scene:
        result = await (await scene.request()).result()
    assert (result.status, result.error) == ("failed", "no summary could be made: a bug")
    assert (result.run_dir, result.exit_code) == ("/runs/one", 1)


@pytest.mark.parametrize(
    ("signal", "arguments"),
    [
        (PARKED_SIGNAL, []),
        (PARKED_SIGNAL, [{"workflow_id": "x", "reason": "nonsense"}]),
        (PARKED_SIGNAL, [{"workflow_id": "x", "reason": "blocked", "message": "never heard of it"}]),
        (PARKED_SIGNAL, ["text", "more"]),
        (READY_SIGNAL, []),
        (READY_SIGNAL, [5]),
        (READY_SIGNAL, ["nobody"]),
        (PAUSE_SIGNAL, [{"reason": 1}]),
        (PAUSE_SIGNAL, ["a", "b"]),
        (RESUME_SIGNAL, ["surplus"]),
        (STOP_SIGNAL, [1]),
        (STOP_SIGNAL, ["a", "b", "c"]),
        ("unheard_of", ["x"]),
    ],
)
async def test_a_bad_signal_is_dropped(client: Client, signal: str, arguments: list[Any]) -> None:
    fakes, gate = FakeActivities(["a"]), Gate()
    fakes.on(RUN_HARNESS, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.request()
        await gate.reached.wait()
        await handle.signal(signal, args=arguments)
        if signal != STOP_SIGNAL:
            await handle.signal(RESUME_SIGNAL)
            gate.opened.set()
        result = await handle.result()
    assert result.status == ("cancelled" if signal == STOP_SIGNAL else "completed")
