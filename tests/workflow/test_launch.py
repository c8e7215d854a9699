"""A launch: refused at preflight, its requests in order, its deadline, and how it is cancelled."""

from __future__ import annotations

from typing import Any

import pytest
from activity_fakes import FakeActivities, Gate
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from workflow_server import run_request, stage, until

from agentcompass.contracts.activities import (
    CLOSE_ENVIRONMENT,
    PREFLIGHT,
    PREPARE_REQUEST,
    RUN_HARNESS,
    PreflightReport,
)
from agentcompass.contracts.workflows import CANCEL_SIGNAL, PAUSE_SIGNAL, RESUME_SIGNAL


@pytest.mark.parametrize(
    ("report", "code", "error"),
    [
        (PreflightReport(problems=["no image", "no key"]), 2, "no image\nno key"),
        (PreflightReport(unreachable=["http://x does not answer"]), 3, "http://x does not answer"),
        (PreflightReport(problems=["no image"], unreachable=["no x"]), 2, "no image\nno x"),
    ],
    ids=["problems", "unreachable", "both"],
)
async def test_preflight_refuses(client: Client, report: PreflightReport, code: int, error: str) -> None:
    fakes = FakeActivities(["a"])
    fakes.on(PREFLIGHT, lambda _: report)
    async with stage(client, fakes) as scene:
        result = await (await scene.launch()).result()
    assert (result.status, result.exit_code, result.error) == ("failed", code, error)
    assert fakes.names() == ["preflight"]


def failing_with(*details: object) -> Any:
    def behave(_: object) -> None:
        raise ApplicationError("the file is not there", *details, type="UsageError", non_retryable=True)

    return behave


@pytest.mark.parametrize("stub", [PREFLIGHT, PREPARE_REQUEST], ids=["preflight", "prepare"])
@pytest.mark.parametrize(("details", "code"), [((2,), 2), ((3,), 3), ((), 1), (("text",), 1)])
async def test_a_failure_before_the_run_carries_its_exit_code(
    client: Client, stub: Any, details: tuple[object, ...], code: int
) -> None:
    fakes = FakeActivities(["a"])
    fakes.on(stub, failing_with(*details))
    async with stage(client, fakes) as scene:
        result = await (await scene.launch()).result()
    assert (result.status, result.exit_code, result.error) == ("failed", code, "the file is not there")


async def test_requests_follow_each_other_and_one_that_fails_does_not_end_the_launch(client: Client) -> None:
    fakes = FakeActivities(["a"])
    fakes.on(PREPARE_REQUEST, lambda input: failing_with(2)(input) if input.request_key == "two" else None)
    async with stage(client, fakes) as scene:
        result = await (
            await scene.launch(run_request("one"), run_request("two"), run_request("three"))
        ).result()
    assert [(item.key, item.status) for item in result.requests] == [
        ("one", "completed"),
        ("two", "failed"),
        ("three", "completed"),
    ]
    assert (result.status, result.exit_code) == ("partial_failure", 1)
    prepared = [input.request_key for input in fakes.inputs(PREPARE_REQUEST)]
    assert prepared == ["one", "two", "three"]


async def test_the_deadline_ends_the_launch(client: Client) -> None:
    fakes, gate = FakeActivities(["a", "b"]), Gate()
    fakes.on(RUN_HARNESS, gate)
    async with stage(client, fakes) as scene:
        result = await (
            await scene.launch(run_request("one"), run_request("two"), timeout_seconds=1, task_concurrency=2)
        ).result()
    assert (result.status, result.exit_code) == ("timed_out", 1)
    assert result.error == "the launch ran for 1 s (timeout_seconds)"
    # The second one never got a slot, and the result says what became of it all the same.
    assert [(item.key, item.status) for item in result.requests] == [
        ("one", "timed_out"),
        ("two", "timed_out"),
    ]
    assert len(fakes.inputs(CLOSE_ENVIRONMENT)) == 2


async def test_the_clock_starts_after_preflight(client: Client) -> None:
    fakes, gate = FakeActivities(["a"]), Gate()
    fakes.on(PREFLIGHT, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.launch(timeout_seconds=5)
        await gate.reached.wait()
        types = {event.event_type for event in (await handle.fetch_history()).events}
        gate.opened.set()
        assert (await handle.result()).status == "completed"
    assert 17 not in types  # EVENT_TYPE_TIMER_STARTED


@pytest.mark.parametrize("how", ["signal", "Temporal"])
async def test_cancelling_cleans_up_and_ends_as_cancelled(client: Client, how: str) -> None:
    fakes, gate = FakeActivities(["a"]), Gate()
    fakes.on(RUN_HARNESS, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.launch(run_request("one"), run_request("two"), task_concurrency=1)
        await gate.reached.wait()
        await (handle.signal(CANCEL_SIGNAL, "interrupted") if how == "signal" else handle.cancel())
        result = await handle.result()
    assert (result.status, result.exit_code) == ("cancelled", 130)
    assert [(item.key, item.status) for item in result.requests] == [
        ("one", "cancelled"),
        ("two", "cancelled"),
    ]
    assert len(fakes.inputs(CLOSE_ENVIRONMENT)) == 1


@pytest.mark.parametrize("how", ["signal", "Temporal"])
async def test_cancelling_does_not_wait_for_preflight(client: Client, how: str) -> None:
    fakes, gate = FakeActivities(["a"]), Gate()
    fakes.on(PREFLIGHT, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.launch()
        await gate.reached.wait()
        await (handle.signal(CANCEL_SIGNAL) if how == "signal" else handle.cancel())
        result = await handle.result()
    assert gate.cancelled == 1
    assert (result.status, result.exit_code, result.requests) == ("cancelled", 130, [])


async def test_the_status_tells_of_every_request(client: Client) -> None:
    fakes, gate = FakeActivities(["a"]), Gate()
    fakes.on(RUN_HARNESS, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.launch(run_request("one"), run_request("two"))
        await gate.reached.wait()
        await handle.signal(PAUSE_SIGNAL, "for lunch")
        await handle.signal(PAUSE_SIGNAL)  # who says nothing takes nothing back
        request = client.get_workflow_handle(f"{handle.id}/one")
        await until(lambda: is_paused(request))
        paused = await handle.query("status")
        await handle.signal(RESUME_SIGNAL)
        gate.opened.set()
        await handle.result()
        done = await handle.query("status")
    assert (paused["state"], paused["message"]) == ("paused", "for lunch")
    assert [(item["key"], item["state"]) for item in paused["requests"]] == [
        ("one", "pending"),
        ("two", "pending"),
    ]
    assert (done["state"], [item["state"] for item in done["requests"]]) == (
        "completed",
        ["completed", "completed"],
    )


async def is_paused(handle: Any) -> bool:
    return bool((await handle.query("status"))["state"] == "paused")


@pytest.mark.parametrize(
    ("signal", "arguments"),
    [(PAUSE_SIGNAL, [1, 2]), (PAUSE_SIGNAL, [{"a": 1}]), (RESUME_SIGNAL, ["x"]), ("unheard_of", [])],
)
async def test_a_bad_signal_is_dropped(client: Client, signal: str, arguments: list[Any]) -> None:
    fakes, gate = FakeActivities(["a"]), Gate()
    fakes.on(PREFLIGHT, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.launch()
        await gate.reached.wait()
        await handle.signal(signal, args=arguments)
        await handle.signal(RESUME_SIGNAL)
        gate.opened.set()
        assert (await handle.result()).status == "completed"
