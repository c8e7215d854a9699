"""The analysis of a request: in batches, one at a time, beside the attempts, for a bounded time."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest
from activity_fakes import FakeActivities, Gate
from temporalio.client import Client
from workflow_server import stage

from agentcompass.contracts.activities import (
    ANALYZE_TASKS,
    FINALIZE_REQUEST,
    PREPARE_REQUEST,
    RUN_HARNESS,
    SAVE_ATTEMPT,
    PreparedRequest,
)
from agentcompass.contracts.workflows import STOP_SIGNAL
from agentcompass.workflows import analysis


def analyzing(count: int) -> FakeActivities:
    """Activities of a request whose tasks are analysed."""
    fakes = FakeActivities([f"t{number}" for number in range(count)])
    prepared = PreparedRequest(run_dir="/runs/one", run_id="run-1", total_tasks=count, analyzes=True)
    fakes.on(PREPARE_REQUEST, lambda _: prepared)
    return fakes


def analyzed(fakes: FakeActivities) -> Counter[int]:
    return Counter(index for input in fakes.inputs(ANALYZE_TASKS) for index in input.task_indexes)


async def test_every_finished_task_is_analyzed_once_in_batches(client: Client) -> None:
    fakes = analyzing(60)
    async with stage(client, fakes) as scene:
        await (await scene.request(task_concurrency=16)).result()
    assert analyzed(fakes) == Counter(range(60))
    assert 1 <= len(fakes.inputs(ANALYZE_TASKS)) <= 3
    assert fakes.names()[-1] == FINALIZE_REQUEST.name


async def test_a_slow_analysis_holds_up_no_attempt_and_is_followed_by_one_more(client: Client) -> None:
    fakes, gate = analyzing(60), Gate()
    fakes.on(ANALYZE_TASKS, gate)
    fakes.on(SAVE_ATTEMPT, lambda _: gate.opened.set() if len(fakes.saved) == 59 else None)
    async with stage(client, fakes) as scene:
        await (await scene.request(task_concurrency=2)).result()
    first, second, *last = fakes.inputs(ANALYZE_TASKS)
    assert len(first.task_indexes) == 25
    # The last attempt may be told of a moment after the first analysis.
    assert (len(second.task_indexes), [len(input.task_indexes) for input in last]) in [(35, []), (34, [1])]


async def test_the_next_run_of_a_request_analyzes_what_the_one_before_has_not(client: Client) -> None:
    fakes = analyzing(30)
    async with stage(client, fakes) as scene:
        await (await scene.request(task_concurrency=2, continue_as_new_after=8)).result()
    assert set(analyzed(fakes)) == set(range(30))


async def test_without_analyzers_there_is_no_activity(client: Client) -> None:
    fakes = FakeActivities(["a", "b"])
    async with stage(client, fakes) as scene:
        await (await scene.request()).result()
    assert fakes.inputs(ANALYZE_TASKS) == []


async def test_a_request_waits_for_its_analysis_no_longer_than_the_limit(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "_PATIENCE", timedelta(seconds=0.5))
    fakes, gate = analyzing(3), Gate()
    fakes.on(ANALYZE_TASKS, gate)
    async with stage(client, fakes) as scene:
        result = await (await scene.request()).result()
    assert result.status == "completed"
    assert (gate.cancelled, gate.standing) == (1, 0)


async def test_a_stop_while_only_the_analysis_is_left_does_not_change_the_outcome(client: Client) -> None:
    fakes, gate = analyzing(3), Gate()
    fakes.on(ANALYZE_TASKS, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.request()
        await gate.reached.wait()
        await handle.signal(STOP_SIGNAL, args=["timed_out", "too late"])
        result = await handle.result()
    assert (result.status, result.error) == ("completed", "")


async def test_a_stopped_request_does_without_the_rest_of_its_analysis(client: Client) -> None:
    fakes, gate, agent = analyzing(40), Gate(), Gate()
    fakes.on(ANALYZE_TASKS, gate)
    fakes.on(RUN_HARNESS, lambda input: agent() if input.ref.task_index == 25 else None)
    async with stage(client, fakes) as scene:
        handle = await scene.request(task_concurrency=1)
        await gate.reached.wait()
        await agent.reached.wait()
        await handle.signal(STOP_SIGNAL, args=["cancelled", "enough"])
        result = await handle.result()
    assert result.status == "cancelled"
    assert len(fakes.inputs(ANALYZE_TASKS)) == 1
