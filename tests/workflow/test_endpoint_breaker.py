"""An endpoint that refuses its account stops every request of the launch that depends on it, and no other."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio
from activity_fakes import in_turn, issue, raising
from recorded_scenarios import commands_of
from shared_slots import Requests, fill_history, named, standing, state_is
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from workflow_server import real_server, stage, until

from agentcompass.contracts.activities import (
    EVALUATE,
    FINALIZE_REQUEST,
    PREFLIGHT,
    PREPARE_REQUEST,
    PhaseInput,
)
from agentcompass.contracts.endpoints import RequestEndpoints
from agentcompass.contracts.issues import IssueCode, IssuePhase
from agentcompass.contracts.launch_state import PreflightReport
from agentcompass.contracts.workflows import (
    ENDPOINT_SIGNAL,
    PAUSE_SIGNAL,
    RESUME_SIGNAL,
    RequestInput,
    RequestOverrides,
)

REFUSED = issue(code=IssueCode.MODEL_AUTHENTICATION, message="401: the key is wrong")
JUDGE_REFUSED = issue(phase=IssuePhase.EVALUATE, code=IssueCode.JUDGE_REFUSED, message="402: no credit")
SHARED = RequestEndpoints(model="shared#1")
OTHER = RequestEndpoints(model="other#1")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    """The one that users have: the time-skipping one loses signals that meet a continue-as-new."""
    async with real_server() as environment:
        yield environment


class Refusing(Requests):
    """Requests whose endpoints refuse them while the test says so."""

    def __init__(self, endpoints: dict[str, RequestEndpoints], *, tasks: int = 3, held: str = "") -> None:
        super().__init__([f"t{number}" for number in range(tasks)], held=held)
        self.endpoints = endpoints
        self.refuses: set[str] = {"shared#1"}
        self.refused: list[str] = []
        self.on(PREFLIGHT, lambda _: PreflightReport(endpoints=list(endpoints.values())))
        self.on(EVALUATE, self._judge)

    async def _run(self, input: PhaseInput) -> None:
        await super()._run(input)
        self._meet(input, self.endpoints[request_of(input)].model, REFUSED)

    def _judge(self, input: PhaseInput) -> None:
        self._meet(input, self.endpoints[request_of(input)].judge, JUDGE_REFUSED)

    def _meet(self, input: PhaseInput, endpoint: str, found: Any) -> None:
        if endpoint in self.refuses:
            self.refused.append(request_of(input))
            raising(found)(input)

    @property
    def requests(self) -> list[Any]:
        """For a launch."""
        return named(*self.endpoints)


def request_of(input: PhaseInput) -> str:
    return input.ref.run_dir.rpartition("/")[2]


def request(client: Client, launch: WorkflowHandle[Any, Any], key: str) -> WorkflowHandle[Any, Any]:
    return client.get_workflow_handle(f"{launch.id}/{key}")


async def summarized(fakes: Refusing, *keys: str) -> bool:
    return sorted(input.request_key for input in fakes.inputs(FINALIZE_REQUEST)) == sorted(keys)


async def message_of(handle: WorkflowHandle[Any, Any]) -> str:
    return str((await handle.query("status"))["message"])


async def test_others_at_the_same_endpoint_stop_and_those_at_another_go_on(client: Client) -> None:
    fakes = Refusing({"one": SHARED, "two": SHARED, "three": OTHER, "four": RequestEndpoints()})
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*fakes.requests, task_concurrency=2)
        one, two = request(client, handle, "one"), request(client, handle, "two")
        await until(lambda: summarized(fakes, "three", "four"))
        await until(lambda: state_is(one, "paused"))
        await until(lambda: state_is(two, "paused"))
        assert (await message_of(one)).startswith(
            "401: the key is wrong (no other attempt is started; mend it"
        )
        told = await message_of(two)
        assert "401: the key is wrong (met by t" in told and "/a1 of request one, at an endpoint that" in told
        assert told.endswith(f"then: agentcompass resume {scene.launch_id})")
        assert set(fakes.refused) == {"one"} and len(fakes.refused) <= 2
        metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        for key in ("one", "two"):
            assert f"| {key} | paused: 401: the key is wrong (one/t" in metadata.current_details
        fakes.refuses.clear()
        await handle.signal(RESUME_SIGNAL)
        result = await handle.result()
    assert [item.status for item in result.requests] == ["completed"] * 4
    assert fakes.order.count("two") == 3
    assert fakes.order.count("one") == 3 + len(fakes.refused)


async def test_what_runs_at_the_same_endpoint_is_not_cancelled_and_nothing_follows_it(client: Client) -> None:
    fakes = Refusing({"one": SHARED, "two": SHARED}, held="one two")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*fakes.requests, task_concurrency=4)
        two = request(client, handle, "two")
        await until(lambda: standing(fakes, one=3, two=1))
        fakes.gate("one").opened.set()
        await until(lambda: state_is(two, "paused"))
        await until(lambda: standing(fakes, two=1))
        fakes.refuses.clear()
        fakes.gate("two").opened.set()
        await until(lambda: has_ended(two, 1))
        assert fakes.order.count("two") == 1
        await handle.signal(RESUME_SIGNAL)
        assert (await handle.result()).status == "completed"
    assert (fakes.gate("two").cancelled, fakes.order.count("two")) == (0, 3)


async def has_ended(handle: WorkflowHandle[Any, Any], tasks: int) -> bool:
    return bool((await handle.query("status"))["finished_tasks"] == tasks)


async def test_a_request_that_begins_later_begins_paused(client: Client) -> None:
    fakes = Refusing({"one": SHARED, "two": OTHER, "three": SHARED}, held="two")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*fakes.requests, task_concurrency=2)
        await until(lambda: state_is(request(client, handle, "one"), "paused"))
        assert "three" not in began(fakes)  # the one before it has more to start than there are slots
        fakes.gate("two").opened.set()
        await until(lambda: state_is(request(client, handle, "three"), "paused"))
        started = (await request(client, handle, "three").fetch_history()).events[0]
        [given] = await client.data_converter.decode(
            started.workflow_execution_started_event_attributes.input.payloads, [RequestInput]
        )
        assert [state.refusal.request for state in given.endpoint_states] == ["one"]
        fakes.refuses.clear()
        await handle.signal(RESUME_SIGNAL)
        assert (await handle.result()).status == "completed"
    assert set(fakes.refused) == {"one"}


def began(fakes: Refusing) -> list[str]:
    return [input.request_key for input in fakes.inputs(PREPARE_REQUEST)]


async def test_resumed_with_the_key_still_wrong_all_of_them_pause_again(client: Client) -> None:
    fakes = Refusing({"one": SHARED, "two": SHARED})
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*fakes.requests, task_concurrency=1)
        one, two = request(client, handle, "one"), request(client, handle, "two")
        for refusals in (1, 2, 3):
            await until(functools.partial(has_met, fakes, refusals))
            await until(lambda: state_is(one, "paused"))
            await until(lambda: state_is(two, "paused"))
            assert len(fakes.refused) == refusals  # of whichever of them was first
            if refusals < 3:
                await handle.signal(RESUME_SIGNAL)
        fakes.refuses.clear()
        await handle.signal(RESUME_SIGNAL)
        assert (await handle.result()).status == "completed"


async def has_met(fakes: Refusing, refusals: int) -> bool:
    return len(fakes.refused) == refusals


async def test_one_request_that_is_resumed_lets_all_of_its_endpoint_go_on(client: Client) -> None:
    fakes = Refusing({"one": SHARED, "two": SHARED})
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*fakes.requests, task_concurrency=2)
        two = request(client, handle, "two")
        await until(lambda: state_is(two, "paused"))
        fakes.refuses.clear()
        await two.signal(RESUME_SIGNAL, "please")  # as somebody may write it
        assert (await handle.result()).status == "completed"


async def test_a_pause_by_an_operator_outlives_the_mending_of_the_endpoint(client: Client) -> None:
    fakes = Refusing({"one": SHARED, "two": SHARED})
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*fakes.requests, task_concurrency=2)
        one, two = request(client, handle, "one"), request(client, handle, "two")
        await until(lambda: state_is(two, "paused"))
        await two.signal(PAUSE_SIGNAL, "lunch")
        assert (await message_of(two)).startswith("lunch; 401: the key is wrong (met by ")
        fakes.refuses.clear()
        await one.signal(RESUME_SIGNAL)
        await until(lambda: summarized(fakes, "one"))
        assert (await state_is(two, "paused"), await message_of(two)) == (True, "lunch")
        await two.signal(RESUME_SIGNAL)
        assert (await handle.result()).status == "completed"
    assert "two" not in fakes.refused


async def test_two_refused_endpoints_are_told_apart(client: Client) -> None:
    both = RequestEndpoints(model="other#1", judge="shared#1")
    fakes = Refusing({"one": SHARED, "two": OTHER, "three": both}, tasks=2)
    fakes.refuses = {"shared#1", "other#1"}
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*fakes.requests, task_concurrency=2)
        one, two, three = (request(client, handle, key) for key in ("one", "two", "three"))
        await until(lambda: says(three, "401: the key is wrong (met by", times=2))
        fakes.refuses.clear()
        await two.signal(RESUME_SIGNAL)
        await until(lambda: summarized(fakes, "two"))
        assert await state_is(one, "paused") and await state_is(three, "paused")
        assert await says(three, "401: the key is wrong (met by", times=1)
        await handle.signal(RESUME_SIGNAL)
        assert (await handle.result()).status == "completed"
    assert set(fakes.refused) == {"one", "two"}


async def says(handle: WorkflowHandle[Any, Any], text: str, times: int) -> bool:
    try:
        return (await message_of(handle)).count(text) == times
    except RPCError:  # not begun yet
        return False


async def test_a_refused_judge_stops_those_that_have_the_same_judge_or_evaluate_it(client: Client) -> None:
    judged = RequestEndpoints(model="other#1", judge="shared#1")
    fakes = Refusing({"one": judged, "two": judged, "three": SHARED, "four": OTHER}, tasks=2)
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*fakes.requests, task_concurrency=1)
        two, three = request(client, handle, "two"), request(client, handle, "three")
        await until(lambda: summarized(fakes, "four"))
        assert await state_is(two, "paused") and await state_is(three, "paused")
        assert "402: no credit (met by t0/a1 of request one" in await message_of(three)
        fakes.refuses.clear()
        await handle.signal(RESUME_SIGNAL)
        assert (await handle.result()).status == "completed"
    assert fakes.refused == ["one"]
    assert fakes.order.count("one") == 2  # its agents did not work again


async def test_a_judge_that_the_launch_does_not_know_stops_its_own_request_only(client: Client) -> None:
    fakes = Refusing({"one": OTHER, "two": OTHER}, tasks=2)
    fakes.on(EVALUATE, in_turn(raising(JUDGE_REFUSED)))
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*fakes.requests, task_concurrency=1)
        await until(lambda: summarized(fakes, "two"))
        assert await state_is(request(client, handle, "one"), "paused")
        await handle.signal(RESUME_SIGNAL)
        assert (await handle.result()).status == "completed"


async def test_the_breaker_outlives_runs_of_the_launch(client: Client) -> None:
    fakes = Refusing({"one": SHARED, "two": OTHER, "three": SHARED}, held="two")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*fakes.requests, task_concurrency=2, continue_as_new_after=40)
        one, three = request(client, handle, "one"), request(client, handle, "three")
        await until(lambda: state_is(one, "paused"))
        await fill_history(client, handle)
        fakes.gate("two").opened.set()
        await until(lambda: state_is(three, "paused"))
        await fill_history(client, handle)
        fakes.refuses.clear()
        await one.signal(RESUME_SIGNAL)
        assert (await handle.result()).status == "completed"
    assert set(fakes.refused) == {"one"}


async def test_a_request_keeps_its_pause_through_its_own_runs(client: Client) -> None:
    fakes = Refusing({"one": SHARED, "two": SHARED}, tasks=4, held="two")
    fakes.refuses.clear()
    async with stage(client, fakes) as scene:
        handle = await scene.launch(
            *fakes.requests, task_concurrency=1, overrides=RequestOverrides(continue_as_new_after=2)
        )
        await until(lambda: summarized(fakes, "one"))
        await until(lambda: standing(fakes, two=1))
        fakes.refuses = {"shared#1"}
        fakes.gate("two").opened.set()
        two = request(client, handle, "two")
        await until(lambda: state_is(two, "paused"))
        fakes.refuses.clear()
        await two.signal(RESUME_SIGNAL)
        assert (await handle.result()).status == "completed"
    assert fakes.refused == ["two"]


async def test_a_launch_of_one_request_tells_nobody(client: Client) -> None:
    fakes = Refusing({"one": SHARED})
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*fakes.requests, task_concurrency=1)
        one = request(client, handle, "one")
        await until(lambda: state_is(one, "paused"))
        fakes.refuses.clear()
        await handle.signal(RESUME_SIGNAL)
        assert (await handle.result()).status == "completed"
        for workflow in (handle, one):
            commands = commands_of((await workflow.fetch_history()).events)
            assert f"signal {ENDPOINT_SIGNAL}" not in commands


async def test_what_is_no_report_of_an_endpoint_is_dropped(client: Client) -> None:
    fakes = Refusing({"one": SHARED, "two": SHARED}, held="one")
    fakes.refuses.clear()
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*fakes.requests, task_concurrency=3)
        await until(lambda: standing(fakes, one=3))
        refusal = {"request": "one", "message": "no"}
        for arguments in (
            [],
            [7],
            ["one"],
            ["one", "shared#1"],
            ["nobody", {"endpoint": "shared#1", "refusal": refusal}],
            ["one", {"endpoint": "elsewhere#1", "refusal": refusal}],
            ["one", {"endpoint": "shared#1", "number": -1, "refusal": refusal}],
        ):
            await handle.signal(ENDPOINT_SIGNAL, args=arguments)
        for arguments in ([], [{"endpoint": "elsewhere#1", "number": 5, "refusal": refusal}]):
            await request(client, handle, "one").signal(ENDPOINT_SIGNAL, args=arguments)
        unknown = [{"endpoint": "elsewhere#1", "number": 9, "refusal": refusal}, 7]
        await request(client, handle, "one").signal(RESUME_SIGNAL, unknown)
        fakes.gate("one").opened.set()
        assert (await handle.result()).status == "completed"
