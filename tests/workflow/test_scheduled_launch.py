"""The launch of a scheduled time: its ids, and that it fails where its launch does not end well."""

from __future__ import annotations

from typing import Any

import pytest
from activity_fakes import FakeActivities, Gate
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError
from workflow_server import run_request, stage

from agentcompass.contracts.activities import (
    CLOSE_ENVIRONMENT,
    FINALIZE_REQUEST,
    PREFLIGHT,
    PREPARE_REQUEST,
    RUN_HARNESS,
    FinalizeInput,
    PreflightReport,
)
from agentcompass.contracts.launch import RequestResult
from agentcompass.contracts.schedules import ScheduledLaunchResult
from agentcompass.contracts.workflows import launch_workflow_id


def finalized(**changes: str) -> Any:
    """A request that completed, with more to tell."""

    def behave(input: FinalizeInput) -> RequestResult:
        return RequestResult(
            key=input.request_key, run_id="r", run_dir=input.run_dir, status=input.status, **changes
        )

    return behave


async def failure_of(handle: WorkflowHandle[Any, ScheduledLaunchResult]) -> BaseException | None:
    with pytest.raises(WorkflowFailureError) as caught:
        await handle.result()
    return caught.value.cause


async def test_it_ends_with_its_launch_and_tells_the_comparisons(client: Client) -> None:
    fakes = FakeActivities(["a"])
    fakes.on(FINALIZE_REQUEST, finalized(comparison="as before"))
    async with stage(client, fakes) as scene:
        result = await (await scene.scheduled(run_request("one"), run_request("two"))).result()
        launch = client.get_workflow_handle(launch_workflow_id(result.launch_id))
        description = await launch.describe()
    attributes = {pair.key.name: pair.value for pair in description.typed_search_attributes}
    assert (attributes["AgentCompassRunId"], attributes["AgentCompassOutcome"]) == ("r", "completed")
    assert description.task_queue == scene.queue
    assert (result.status, result.comparisons) == ("completed", {"one": "as before", "two": "as before"})


async def test_requests_get_the_run_id_and_the_folder_of_the_schedule(client: Client) -> None:
    fakes = FakeActivities(["a"])
    async with stage(client, fakes) as scene:
        handle = await scene.scheduled(run_request("one"), run_request("two"))
        result = await handle.result()
    prepared = [input.request for input in fakes.inputs(PREPARE_REQUEST)]
    [run_id] = {request.output.run_id for request in prepared}
    [folder] = {request.output.run_name for request in prepared}
    assert result.launch_id == f"{folder}-{run_id.replace('_', '-')}"
    assert handle.id == f"schedule/{folder}-now"


async def test_a_regression_fails_launch_and_schedule_although_all_runs_are_valid(client: Client) -> None:
    fakes = FakeActivities(["a"])
    fakes.on(FINALIZE_REQUEST, finalized(comparison="worse", regression="regression against run r0: worse"))
    async with stage(client, fakes) as scene:
        cause = await failure_of(await scene.scheduled())
    assert isinstance(cause, ApplicationError)
    assert cause.type == "failed"
    assert cause.message.endswith(": failed: regression against run r0: worse")


async def test_a_refused_launch_fails_with_its_reason(client: Client) -> None:
    fakes = FakeActivities(["a"])
    fakes.on(PREFLIGHT, lambda _: PreflightReport(problems=["env:KEY is not set"]))
    async with stage(client, fakes) as scene:
        cause = await failure_of(await scene.scheduled())
    assert isinstance(cause, ApplicationError)
    assert (cause.type, cause.message.split(": ", 1)[1]) == ("refused", "refused: env:KEY is not set")


async def test_cancelling_it_cancels_the_launch_which_cleans_up_first(client: Client) -> None:
    fakes, gate = FakeActivities(["a"]), Gate()
    fakes.on(RUN_HARNESS, gate)
    async with stage(client, fakes) as scene:
        handle = await scene.scheduled()
        await gate.reached.wait()
        await handle.cancel()
        cause = await failure_of(handle)
    assert isinstance(cause, CancelledError)
    assert len(fakes.inputs(CLOSE_ENVIRONMENT)) == 1
