"""An opening with a place of a pool: the waiting may take long, the opening itself may not."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from activity_fakes import FakeActivities
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment, WorkflowEnvironment
from workflow_server import real_server, stage

from agentcompass.activities import environments
from agentcompass.activities.environments import Environments
from agentcompass.activities.plan_attempt import PlanAttempt
from agentcompass.activities.prepare_request import PrepareRequest
from agentcompass.activities.services import Services, WorkerSettings
from agentcompass.contracts.activities import (
    AttemptRef,
    ExecutionRef,
    OpenEnvironmentInput,
    PrepareRequestInput,
)
from agentcompass.contracts.environment import OpenRequest
from agentcompass.contracts.launch import LaunchRuntime
from agentcompass.contracts.pool import PoolSettings, PoolState
from agentcompass.contracts.records import TemporalInfo
from agentcompass.contracts.request import RunRequest
from agentcompass.contracts.workflows import (
    POOL_WORKFLOW,
    STATUS_QUERY,
    PoolInput,
    PoolStatus,
    pool_workflow_id,
)
from agentcompass.plugins.environments.host_process import HostProcess


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server() -> AsyncIterator[WorkflowEnvironment]:
    """Instead of the server of the other tests of this folder: the pool is one as users have it."""
    async with real_server() as environment:
        yield environment


async def planned(services: Services, folder: Path, **setup: Any) -> ExecutionRef:
    """A request with one task, prepared and planned as by a worker."""
    tasks = folder / "tasks.jsonl"
    tasks.write_text(json.dumps({"id": "q", "question": "?", "answer": "!"}) + "\n")
    prepared = await ActivityEnvironment().run(
        PrepareRequest(services).prepare_request,
        PrepareRequestInput(
            launch_id=uuid.uuid4().hex,
            request_key="one",
            request_index=0,
            request_count=1,
            request=RunRequest.model_validate(
                {
                    "benchmark": {"id": "qa", "params": {"path": str(tasks)}},
                    "harness": {"id": "oracle"},
                    "environment": {"id": "host_process", "setup": setup},
                    "model": {"id": "none"},
                }
            ),
            runtime=LaunchRuntime(results_dir=str(folder / "results")),
            temporal=TemporalInfo(namespace="n", workflow_id="w", run_id="r"),
        ),
    )
    attempt = {"run_dir": prepared.run_dir, "task_index": 0, "task_id": "q", "attempt": 1}
    await ActivityEnvironment().run(PlanAttempt(services).plan_attempt, AttemptRef(**attempt))
    return ExecutionRef(**attempt)


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ({}, "not open within 0.3 s; setup.build_timeout_seconds gives it more time or less"),
        (
            {"build_timeout_seconds": 0.2},
            "the build budget of 0.2 s (setup.build_timeout_seconds) is used up",
        ),
    ],
)
async def test_a_provider_that_hangs_after_the_place_was_granted_ends_as_an_expired_opening(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setup: dict[str, float], said: str
) -> None:
    assert environments._LONGEST_OPENING_SECONDS == 2 * 60 * 60
    monkeypatch.setattr(environments, "_LONGEST_OPENING_SECONDS", 0.3)
    hung = asyncio.Event()

    async def hang(self: HostProcess, request: OpenRequest) -> None:
        hung.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(HostProcess, "open", hang)
    services = Services(client, WorkerSettings("queue", "queue"))
    ref = await planned(services, tmp_path, **setup)
    async with stage(client, FakeActivities()) as scene:
        pool = await client.start_workflow(
            POOL_WORKFLOW,
            PoolInput(provider="host_process", state=PoolState(settings=PoolSettings(capacity=1))),
            id=pool_workflow_id("host_process"),
            task_queue=scene.queue,
        )
        opening = Environments(services).open_environment
        with pytest.raises(ApplicationError) as raised:
            await asyncio.wait_for(
                ActivityEnvironment().run(opening, OpenEnvironmentInput(ref=ref, pooled=True)), 60
            )
        held = (await pool.query(STATUS_QUERY, result_type=PoolStatus)).held
        await pool.terminate()
    assert hung.is_set() and sum(held.values()) == 1
    issue = raised.value.details[0]
    assert (issue["code"], issue["message"]) == ("environment_open_failed", said)
