"""Several requests in one launch: pipelined preparation, slots in order, limits that change, single requests cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from activity_fakes import Gate, in_turn, issue, raising
from shared_slots import Requests, named, standing
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError
from workflow_server import stage, until

from agentcompass.contracts.activities import (
    EVALUATE,
    FINALIZE_REQUEST,
    PREFLIGHT,
    PREPARE_REQUEST,
    SAVE_LAUNCH_SUMMARY,
)
from agentcompass.contracts.dispatch import Demand
from agentcompass.contracts.request import EnvironmentSpec
from agentcompass.contracts.workflows import (
    CANCEL_REQUEST_SIGNAL,
    CANCEL_SIGNAL,
    CANCEL_TASK_SIGNAL,
    DEMAND_SIGNAL,
    LIMITS_SIGNAL,
    PAUSE_SIGNAL,
    RETRY_FAILED_SIGNAL,
    LimitsChange,
)


async def slots_of(client: Client, handle: WorkflowHandle[Any, Any]) -> dict[str, int]:
    """Attempts in flight of every request, as its workflow tells."""
    found = {}
    for request in (await handle.query("status"))["requests"]:
        try:
            status = await client.get_workflow_handle(request["workflow_id"]).query("status")
        except Exception:  # it was not started yet, which is what the caller waits for
            continue
        found[request["key"]] = status["running_attempts"]
    return found


async def test_a_later_request_uses_the_slots_that_the_first_one_leaves(client: Client) -> None:
    fakes = Requests(["a", "b", "c"], held="one two")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("one", "two"), task_concurrency=4)
        await until(lambda: standing(fakes, one=3, two=1))
        for request in ("one", "two"):
            fakes.gate(request).opened.set()
        result = await handle.result()
    assert result.status == "completed"
    assert fakes.order[:4] == ["one", "one", "one", "two"]
    assert fakes.most == 4


async def test_more_requests_than_slots_all_come_to_their_end_in_order(client: Client) -> None:
    fakes = Requests([f"t{number}" for number in range(5)])
    names = [f"r{number}" for number in range(8)]
    async with stage(client, fakes) as scene:
        result = await (await scene.launch(*named(*names), task_concurrency=3)).result()
    assert [(item.key, item.status) for item in result.requests] == [(name, "completed") for name in names]
    assert fakes.most <= 3
    assert [input.request_key for input in fakes.inputs(PREPARE_REQUEST)] == names
    assert sorted(fakes.order) == sorted(names * 5)


async def test_a_request_whose_tasks_would_only_wait_is_not_prepared(client: Client) -> None:
    fakes = Requests(["a", "b", "c", "d"], held="one")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("one", "two"), task_concurrency=2)
        await until(lambda: standing(fakes, one=2))
        assert [input.request_key for input in fakes.inputs(PREPARE_REQUEST)] == ["one"]
        fakes.gate("one").opened.set()
        await handle.result()
    assert [input.request_key for input in fakes.inputs(PREPARE_REQUEST)] == ["one", "two"]


async def test_a_request_is_summarized_only_after_all_earlier_ones_started_their_attempts(
    client: Client,
) -> None:
    fakes = Requests(["a", "b", "c"], held="one")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("one", "two"), task_concurrency=6, provider_limits={"sandbox": 0})
        await until(lambda: standing(fakes, one=3))
        # The first has nothing left to start, so the second may end before it.
        await until(lambda: _is_summarized(fakes, "two"))
        fakes.gate("one").opened.set()
        await handle.result()
    finalized = [input.request_key for input in fakes.inputs(FINALIZE_REQUEST)]
    assert finalized == ["two", "one"]


async def _is_summarized(fakes: Requests, key: str) -> bool:
    return key in [input.request_key for input in fakes.inputs(FINALIZE_REQUEST)]


async def test_a_provider_limit_holds_over_all_requests(client: Client) -> None:
    fakes = Requests(["a", "b", "c", "d"])
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("one", "two"), task_concurrency=8, provider_limits={"sandbox": 2})
        result = await handle.result()
    assert result.status == "completed"
    assert fakes.most <= 2


@pytest.mark.parametrize("names", [["one"], ["one", "two"]], ids=["one request", "two requests"])
async def test_the_concurrency_of_a_running_launch_can_be_raised(client: Client, names: list[str]) -> None:
    fakes = Requests(["a", "b", "c", "d"], held="one")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named(*names), task_concurrency=1)
        await until(lambda: standing(fakes, one=1))
        await handle.signal(LIMITS_SIGNAL, LimitsChange(task_concurrency=3))
        await until(lambda: standing(fakes, one=3))
        assert (await handle.query("status"))["task_concurrency"] == 3
        fakes.gate("one").opened.set()
        assert (await handle.result()).status == "completed"


async def test_a_lowered_concurrency_ends_nothing_and_starts_less(client: Client) -> None:
    fakes = Requests(["a", "b", "c", "d", "e", "f"], held="one")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("one"), task_concurrency=3)
        await until(lambda: standing(fakes, one=3))
        await handle.signal(LIMITS_SIGNAL, LimitsChange(task_concurrency=1))
        await until(lambda: _limit_is(handle, 1))
        fakes.most = 0
        fakes.gate("one").opened.set()
        await handle.result()
    assert len(fakes.order) == 6
    assert fakes.most == 1


async def _limit_is(handle: WorkflowHandle[Any, Any], limit: int) -> bool:
    return bool((await handle.query("status"))["task_concurrency"] == limit)


@pytest.mark.parametrize("nonsense", [{"task_concurrency": 0}, {"provider_limits": {"x": -1}}, {"a": 1}, 7])
async def test_nonsense_limits_are_dropped(client: Client, nonsense: Any) -> None:
    fakes = Requests(["a"], held="one")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("one", "two"), task_concurrency=2)
        await until(lambda: standing(fakes, one=1))
        await handle.signal(LIMITS_SIGNAL, nonsense)
        assert (await handle.query("status"))["task_concurrency"] == 2
        fakes.gate("one").opened.set()
        assert (await handle.result()).status == "completed"


async def test_a_cancelled_request_that_waits_is_over_at_once(client: Client) -> None:
    fakes = Requests(["a", "b"], held="one")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("one", "two", "three"), task_concurrency=2)
        await until(lambda: standing(fakes, one=2))
        await handle.signal(CANCEL_REQUEST_SIGNAL, args=["three", "not needed"])
        states = {item["key"]: item["state"] for item in (await handle.query("status"))["requests"]}
        assert (states["two"], states["three"]) == ("pending", "cancelled")
        fakes.gate("one").opened.set()
        await handle.result()
    assert [input.request_key for input in fakes.inputs(PREPARE_REQUEST)] == ["one", "two"]


async def test_a_paused_launch_starts_nothing_in_any_request(client: Client) -> None:
    fakes = Requests(["a", "b", "c"], held="one")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("one", "two"), task_concurrency=2)
        await until(lambda: standing(fakes, one=2))
        await handle.signal(PAUSE_SIGNAL, "lunch")
        request = client.get_workflow_handle(f"{handle.id}/one")
        await until(lambda: _is_paused(request))
        fakes.gate("one").opened.set()
        await until(lambda: standing(fakes))
        assert len(fakes.order) == 2
        await handle.signal("resume")
        assert (await handle.result()).status == "completed"
    assert len(fakes.order) == 6


async def test_a_paused_launch_prepares_no_later_request(client: Client) -> None:
    fakes = Requests(["a", "b"], held="one")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("one", "two"), task_concurrency=1)
        await until(lambda: standing(fakes, one=1))
        await handle.signal(PAUSE_SIGNAL, "lunch")
        request = client.get_workflow_handle(f"{handle.id}/one")
        await until(lambda: _is_paused(request))
        fakes.gate("one").opened.set()
        await until(lambda: standing(fakes))
        # A request that is paused reports that it has nothing to start, which lets later ones begin otherwise.
        await request.signal(CANCEL_TASK_SIGNAL, "none of its tasks")
        await handle.query("status")
        assert [input.request_key for input in fakes.inputs(PREPARE_REQUEST)] == ["one"]
        await handle.signal("resume")
        assert (await handle.result()).status == "completed"
    assert [input.request_key for input in fakes.inputs(PREPARE_REQUEST)] == ["one", "two"]


def limited_and_free() -> list[Any]:
    """Two requests: with ``LIMITED`` the first runs one attempt at a time, the second beside it as it likes."""
    limited, free = named("one", "two")
    return [limited, free.model_copy(update={"environment": EnvironmentSpec(id="other")})]


LIMITED: dict[str, Any] = {"task_concurrency": 4, "provider_limits": {"sandbox": 1}}


async def test_a_request_that_only_waits_for_earlier_ones_keeps_its_result_when_the_launch_is_cancelled(
    client: Client,
) -> None:
    fakes = Requests(["a", "b", "c"], held="one")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*limited_and_free(), **LIMITED)
        await until(lambda: _is(client.get_workflow_handle(f"{handle.id}/two"), "waiting"))
        await handle.signal(CANCEL_SIGNAL, "enough")
        result = await handle.result()
    assert [(item.key, item.status) for item in result.requests] == [
        ("one", "cancelled"),
        ("two", "completed"),
    ]
    assert (result.status, result.exit_code) == ("cancelled", 130)


async def test_failed_tasks_are_executed_again_while_their_request_waits_for_earlier_ones(
    client: Client,
) -> None:
    fakes = Requests(["a", "b", "c"], held="one")
    fakes.on(EVALUATE, in_turn(raising(issue())))
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*limited_and_free(), **LIMITED)
        second = client.get_workflow_handle(f"{handle.id}/two")
        await until(lambda: _is(second, "waiting"))
        assert (await second.query("status"))["failed_tasks"] == 1
        await second.signal(RETRY_FAILED_SIGNAL)
        await until(lambda: _executed(fakes, "two", 4))
        fakes.gate("one").opened.set()
        await handle.result()
        assert (await second.query("status"))["failed_tasks"] == 0


async def _executed(fakes: Requests, request: str, count: int) -> bool:
    return fakes.order.count(request) == count


async def test_slots_that_are_given_while_a_request_starts_reach_it(client: Client) -> None:
    fakes, checking = Requests(["a"]), Gate()
    fakes.on(PREFLIGHT, checking)
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("one", "two"), task_concurrency=1)
        await checking.reached.wait()
        # As when the news of its start comes late, together with its first report.
        await handle.signal(DEMAND_SIGNAL, args=["one", Demand(pending=1)])
        checking.opened.set()
        async with asyncio.timeout(60):
            result = await handle.result()
    assert result.status == "completed"


async def _is(handle: WorkflowHandle[Any, Any], state: str) -> bool:
    try:
        return bool((await handle.query("status"))["state"] == state)
    except RPCError:  # it was not started yet, which is what the caller waits for
        return False


async def _is_paused(handle: WorkflowHandle[Any, Any]) -> bool:
    return bool((await handle.query("status"))["state"] == "paused")


async def test_the_summary_of_a_launch_names_every_request(client: Client) -> None:
    fakes = Requests(["a"])
    async with stage(client, fakes) as scene:
        result = await (await scene.launch(*named("one", "two"))).result()
    [saved] = fakes.inputs(SAVE_LAUNCH_SUMMARY)
    assert [(item.key, item.status) for item in saved.result.requests] == [
        ("one", "completed"),
        ("two", "completed"),
    ]
    assert (saved.result.status, saved.results_dir) == ("completed", "results")
    assert result.summary_path == "/results/launches/one"
