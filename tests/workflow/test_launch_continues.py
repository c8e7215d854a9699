"""A launch of many requests continues as new: no request is lost or repeated, and what operators say holds.

On the server that users have: the time-skipping one loses signals that meet a continue-as-new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest_asyncio
from activity_fakes import Gate, in_turn, issue, raising
from shared_slots import Requests, continued, fill_history, named, standing, state_is
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import WorkflowEnvironment
from workflow_server import real_server, stage, until

from agentcompass.activities.orphans import end_orphans, queues_of_orphans
from agentcompass.contracts.activities import (
    CLOSE_ENVIRONMENT,
    EVALUATE,
    FINALIZE_REQUEST,
    PREPARE_REQUEST,
    SAVE_LAUNCH_SUMMARY,
)
from agentcompass.contracts.workflows import (
    BEGAN_MEMO,
    CANCEL_REQUEST_SIGNAL,
    CANCEL_SIGNAL,
    CANCEL_TASK_SIGNAL,
    LIMITS_SIGNAL,
    PAUSE_SIGNAL,
    RESUME_SIGNAL,
    RETRY_FAILED_SIGNAL,
    LimitsChange,
)

EVENTS = 40
"""Of its history, after which a launch of these tests continues as new."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    """Instead of the server of the other tests of this folder."""
    async with real_server() as environment:
        yield environment


def began(fakes: Requests) -> list[str]:
    return [input.request_key for input in fakes.inputs(PREPARE_REQUEST)]


async def has_begun(fakes: Requests, count: int) -> bool:
    return len(began(fakes)) >= count


async def test_no_request_is_lost_or_repeated_and_slots_are_kept_to(client: Client) -> None:
    names = [f"r{number}" for number in range(8)]
    fakes = Requests(["a", "b", "c"])
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named(*names), task_concurrency=3, continue_as_new_after=EVENTS)
        result = await handle.result()
        assert await continued(client, handle, 2)
        first = client.get_workflow_handle(handle.id, run_id=handle.first_execution_run_id)
        current = await handle.describe()
        began_at = datetime.fromisoformat(await current.memo_value(BEGAN_MEMO))
        assert (await first.describe()).start_time <= began_at < current.start_time
    assert [(item.key, item.status) for item in result.requests] == [(name, "completed") for name in names]
    assert began(fakes) == names
    assert Counter(fakes.order) == dict.fromkeys(names, 3)
    assert fakes.most <= 3
    assert sorted(input.request_key for input in fakes.inputs(FINALIZE_REQUEST)) == sorted(names)
    assert len(fakes.inputs(SAVE_LAUNCH_SUMMARY)) == 1


async def test_requests_in_flight_are_taken_over_through_many_runs(client: Client) -> None:
    fakes = Requests(["a", "b"], held="r0 r1")
    async with stage(client, fakes) as scene:
        names = [f"r{number}" for number in range(6)]
        handle = await scene.launch(*named(*names), task_concurrency=5, continue_as_new_after=EVENTS)
        await until(lambda: continued(client, handle, 2))
        await until(lambda: standing(fakes, r0=2, r1=2))
        fakes.gate("r0").opened.set()
        fakes.gate("r1").opened.set()
        result = await handle.result()
    assert [item.status for item in result.requests] == ["completed"] * 6
    assert Counter(fakes.order) == dict.fromkeys(names, 2)
    assert began(fakes) == names


async def test_cancelling_reaches_requests_that_were_taken_over(client: Client) -> None:
    fakes = Requests(["a", "b"], held="r0 r1")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(
            *named("r0", "r1", "r2"), task_concurrency=4, continue_as_new_after=EVENTS
        )
        await until(lambda: standing(fakes, r0=2, r1=2))
        await fill_history(client, handle)
        await handle.signal(CANCEL_SIGNAL, "enough")
        result = await handle.result()
    assert (result.status, result.exit_code, result.error) == ("cancelled", 130, "enough")
    assert [item.status for item in result.requests] == ["cancelled"] * 3
    assert len(fakes.inputs(CLOSE_ENVIRONMENT)) == 4


async def test_a_cancellation_that_began_goes_on_in_the_next_run(client: Client) -> None:
    fakes, closing = Requests(["a"], held="r0"), Gate()
    fakes.on(CLOSE_ENVIRONMENT, closing)
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("r0", "r1"), task_concurrency=1, continue_as_new_after=EVENTS)
        await until(lambda: standing(fakes, r0=1))
        await handle.cancel()
        await closing.reached.wait()
        await fill_history(client, handle)
        assert await state_is(handle, "stopping")
        closing.opened.set()
        result = await handle.result()
    assert (result.status, [item.status for item in result.requests]) == ("cancelled", ["cancelled"] * 2)


async def test_one_request_of_an_earlier_run_is_cancelled_and_the_others_go_on(client: Client) -> None:
    fakes = Requests(["a"], held="r0 r1")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(
            *named("r0", "r1", "r2"), task_concurrency=2, continue_as_new_after=EVENTS
        )
        await until(lambda: standing(fakes, r0=1, r1=1))
        await fill_history(client, handle)
        await handle.signal(CANCEL_REQUEST_SIGNAL, args=["r0", "not needed"])
        await until(lambda: has_begun(fakes, 3))
        fakes.gate("r1").opened.set()
        result = await handle.result()
    assert [item.status for item in result.requests] == ["cancelled", "completed", "completed"]


async def test_a_pause_holds_in_the_next_run_and_no_request_begins_in_it(client: Client) -> None:
    fakes = Requests(["a", "b"], held="r0")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(
            *named("r0", "r1", "r2"), task_concurrency=1, continue_as_new_after=EVENTS
        )
        await until(lambda: standing(fakes, r0=1))
        await handle.signal(PAUSE_SIGNAL, "lunch")
        fakes.gate("r0").opened.set()
        await fill_history(client, handle)
        assert await state_is(handle, "paused")
        assert (await handle.query("status"))["message"] == "lunch"
        assert "r1" not in began(fakes)
        await handle.signal(RESUME_SIGNAL)
        result = await handle.result()
    assert result.status == "completed"
    assert began(fakes) == ["r0", "r1", "r2"]


async def test_changed_limits_hold_in_the_next_run(client: Client) -> None:
    fakes = Requests(["a", "b", "c"], held="r0 r1")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("r0", "r1"), task_concurrency=1, continue_as_new_after=EVENTS)
        await until(lambda: standing(fakes, r0=1))
        await handle.signal(LIMITS_SIGNAL, LimitsChange(task_concurrency=4))
        await fill_history(client, handle)
        await until(lambda: standing(fakes, r0=3, r1=1))
        await handle.signal(LIMITS_SIGNAL, LimitsChange(task_concurrency=5))
        await until(lambda: standing(fakes, r0=3, r1=2))
        fakes.gate("r0").opened.set()
        fakes.gate("r1").opened.set()
        assert (await handle.result()).status == "completed"
        assert (await handle.query("status"))["task_concurrency"] == 5


async def test_the_deadline_is_that_of_the_launch_and_not_of_a_run(client: Client) -> None:
    fakes = Requests(["a"], held="r0 r1")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(
            *named("r0", "r1"), task_concurrency=2, timeout_seconds=4, continue_as_new_after=EVENTS
        )
        await until(lambda: standing(fakes, r0=1, r1=1))
        await fill_history(client, handle)
        result = await handle.result()
    assert (result.status, result.error) == ("timed_out", "the launch ran for 4 s (timeout_seconds)")
    assert [item.status for item in result.requests] == ["timed_out"] * 2
    timers = [
        event.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta().total_seconds()
        for event in (await client.get_workflow_handle(handle.id).fetch_history()).events
        if event.HasField("timer_started_event_attributes")
    ]
    assert timers and timers[0] < 4


async def test_failed_tasks_are_executed_again_in_a_request_of_an_earlier_run(client: Client) -> None:
    fakes = Requests(["a", "b"], held="r0")
    fakes.on(EVALUATE, in_turn(raising(issue())))
    async with stage(client, fakes) as scene:
        requests = named("r0", "r1")
        requests[1].environment.id = "other"
        handle = await scene.launch(
            *requests, task_concurrency=3, provider_limits={"sandbox": 1}, continue_as_new_after=EVENTS
        )
        second = client.get_workflow_handle(f"{handle.id}/r1")
        await until(lambda: has_begun(fakes, 2))
        await until(lambda: state_is(second, "waiting"))
        await fill_history(client, handle)
        await second.signal(RETRY_FAILED_SIGNAL)
        await until(lambda: executed(fakes, "r1", 3))
        fakes.gate("r0").opened.set()
        assert (await handle.result()).status == "completed"


async def executed(fakes: Requests, request: str, times: int) -> bool:
    return fakes.order.count(request) == times


async def test_a_request_of_an_earlier_run_that_is_refused_carries_its_exit_code(client: Client) -> None:
    fakes, checking = Requests(["a"]), Gate()

    async def refuse(input: Any) -> Any:
        if input.request_key == "r0":
            await checking()
            raise ApplicationError("the file is not there", 2, type="UsageError", non_retryable=True)
        return fakes._prepare(input)

    fakes.on(PREPARE_REQUEST, refuse)
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("r0", "r1"), task_concurrency=1, continue_as_new_after=EVENTS)
        await checking.reached.wait()
        await fill_history(client, handle)
        checking.opened.set()
        result = await handle.result()
    refused, completed = result.requests
    assert (refused.status, refused.error, refused.exit_code) == ("failed", "the file is not there", 2)
    assert (completed.status, result.status) == ("completed", "partial_failure")


async def test_a_request_of_an_earlier_run_that_is_terminated_has_failed(client: Client) -> None:
    fakes = Requests(["a"], held="r0")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("r0", "r1"), task_concurrency=1, continue_as_new_after=EVENTS)
        await until(lambda: standing(fakes, r0=1))
        await fill_history(client, handle)
        await client.get_workflow_handle(f"{handle.id}/r0").terminate("gone")
        result = await handle.result()
        fakes.gate("r0").opened.set()
    assert [item.status for item in result.requests] == ["failed", "completed"]
    assert "terminated" in result.requests[0].error.lower()


async def test_a_request_whose_launch_was_terminated_ends_by_itself(client: Client) -> None:
    fakes = Requests(["a", "b", "c", "d"], held="r0")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("r0", "r1"), task_concurrency=2, continue_as_new_after=EVENTS)
        await until(lambda: standing(fakes, r0=2))
        await handle.terminate("by mistake")
        request = client.get_workflow_handle(f"{handle.id}/r0")
        await request.signal(CANCEL_TASK_SIGNAL, "a")  # another one begins, which is news for the launch
        found = await request.result()
    assert (found["status"], found["error"]) == ("cancelled", "its launch was ended without it")


async def test_attempts_of_a_request_that_is_terminated_by_itself_are_ended_at_the_next_look(
    client: Client,
) -> None:
    fakes = Requests(["a", "b"], held="r0 r1")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("r0", "r1"), task_concurrency=3)
        await until(lambda: standing(fakes, r0=2, r1=1))
        launch_id = handle.id.removeprefix("launch/")
        assert launch_id not in await queues_of_orphans(client)
        await client.get_workflow_handle(f"{handle.id}/r0").terminate("by mistake")

        async def both_are_closed() -> bool:  # at the next looks: the server lists an end a moment later
            await end_orphans(client, all_attempts=False)
            return len(fakes.inputs(CLOSE_ENVIRONMENT)) == 2

        await until(both_are_closed)
        await until(lambda: standing(fakes, r1=2))
        fakes.gate("r1").opened.set()
        result = await handle.result()
    assert [item.status for item in result.requests] == ["failed", "completed"]
