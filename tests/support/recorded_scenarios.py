"""Small launches whose histories are kept: what they do, and the commands that a history holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from activity_fakes import LOCAL_PHASES, FakeActivities, Gate, in_turn, issue, plan, raising, retrying
from shared_slots import Requests, named, runs_of, standing, state_is
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistory
from workflow_server import run_request, stage, until

from agentcompass.contracts.activities import (
    BEGIN_ATTEMPT,
    EVALUATE,
    OPEN_ENVIRONMENT,
    PREFLIGHT,
    RUN_HARNESS,
    AttemptBegun,
    AttemptOutcome,
    OpenedEnvironment,
    OpenEnvironmentInput,
    PhaseInput,
    PhaseOutcome,
    environment_id,
)
from agentcompass.contracts.endpoints import RequestEndpoints
from agentcompass.contracts.environment import EnvironmentHandle
from agentcompass.contracts.issues import IssuePhase
from agentcompass.contracts.launch_state import PreflightReport
from agentcompass.contracts.phases import Phase
from agentcompass.contracts.pool import LeaseRequest, PoolChange, PoolSettings, PoolState
from agentcompass.contracts.upkeep import ReapInput
from agentcompass.contracts.workflows import (
    ACQUIRE_SIGNAL,
    CANCEL_SIGNAL,
    LIMITS_SIGNAL,
    POOL_LIMITS_SIGNAL,
    POOL_WORKFLOW,
    REAPER_WORKFLOW,
    RELEASE_SIGNAL,
    STATUS_QUERY,
    LimitsChange,
    PoolInput,
    PoolStatus,
)

Recorded = dict[str, WorkflowHistory]


async def record_all(client: Client) -> Recorded:
    """The histories of every scenario by name."""
    found: Recorded = {}
    for scenario in (
        _launch,
        _quick_attempt,
        _whole_attempt,
        _attempt_in_one_step,
        _retried_attempt,
        _fresh_attempt,
        _stepped_attempt,
        _continued_request,
        _continued_launch,
        _refused_launch,
        _host_lost,
        _scheduled_launch,
        _pooled_attempt,
        _pool,
        _reaper,
    ):
        found.update(await scenario(client))
    return found


async def _launch(client: Client) -> Recorded:
    """A launch of one request of two attempts at a time, all phases in activities."""
    fakes = FakeActivities(["a", "b"], plan=plan(mode="reuse", collects_artifacts=True))
    async with stage(client, fakes) as scene:
        handle = await scene.launch(task_concurrency=1)
        await handle.result()
        request = client.get_workflow_handle(f"{handle.id}/one")
        return {
            "launch": await handle.fetch_history(),
            "request": await request.fetch_history(),
            "attempt": await scene.attempt_of("a").fetch_history(),
        }


async def _attempt(
    client: Client, name: str, fakes: FakeActivities, *, in_one_step: bool = False
) -> Recorded:
    async with stage(client, fakes) as scene:
        handle = await scene.attempt(in_one_step=in_one_step)
        await handle.result()
        return {name: await handle.fetch_history()}


async def _quick_attempt(client: Client) -> Recorded:
    """Phases in local activities."""
    return await _attempt(client, "attempt-quick", FakeActivities(plan=plan(quick_phases=LOCAL_PHASES)))


async def _whole_attempt(client: Client) -> Recorded:
    """All phases in one local activity."""
    phases = [phase.value for phase in Phase]
    return await _attempt(client, "attempt-whole", FakeActivities(plan=plan(quick_phases=phases)))


async def _attempt_in_one_step(client: Client) -> Recorded:
    """Planned, executed and saved in one local activity."""
    fakes = FakeActivities()
    phases = [phase.value for phase in Phase]
    outcome = AttemptOutcome(task_id="task", attempt=1, status="completed", success=True, task_finished=True)
    fakes.on(BEGIN_ATTEMPT, lambda _: AttemptBegun(plan=plan(quick_phases=phases), outcome=outcome))
    return await _attempt(client, "attempt-in-one-step", fakes, in_one_step=True)


async def _retried_attempt(client: Client) -> Recorded:
    """Executed again, then only evaluated again."""
    fakes = FakeActivities(plan=plan(retry=retrying(2, delay=0.1)))
    fakes.on(RUN_HARNESS, in_turn(raising(issue())))
    fakes.on(EVALUATE, in_turn(raising(issue(phase=IssuePhase.EVALUATE))))
    return await _attempt(client, "attempt-retried", fakes)


async def _fresh_attempt(client: Client) -> Recorded:
    """Judged in an environment of its own, by a benchmark that runs its tasks itself."""
    return await _attempt(client, "attempt-fresh", FakeActivities(plan=plan(mode="fresh", harness_free=True)))


async def _stepped_attempt(client: Client) -> Recorded:
    """Three steps are planned, the second of which is judged apart and is the last."""
    steps = [plan(mode="reuse"), plan(mode="fresh"), plan(mode="reuse")]
    fakes = FakeActivities(plan=plan(mode="reuse", steps=steps))
    fakes.on(EVALUATE, lambda input: PhaseOutcome(ends_steps=input.ref.step == 2))
    return await _attempt(client, "attempt-stepped", fakes)


async def _continued_request(client: Client) -> Recorded:
    """A request that continues as new after two attempts, one at a time."""
    fakes = FakeActivities(["a", "b", "c"])
    async with stage(client, fakes) as scene:
        handle = await scene.request(request=run_request(), continue_as_new_after=2, task_concurrency=1)
        await handle.result()
        first = client.get_workflow_handle(handle.id, run_id=handle.first_execution_run_id)
        return {
            "request-continued-1": await first.fetch_history(),
            "request-continued-2": await client.get_workflow_handle(handle.id).fetch_history(),
        }


async def _continued_launch(client: Client) -> Recorded:
    """A launch that continues as new while its first request runs, and is cancelled then."""
    fakes = Requests(["a", "b"], held="one")
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("one", "two"), task_concurrency=1, continue_as_new_after=60)
        await until(lambda: standing(fakes, one=1))

        async def continued() -> bool:
            await handle.signal(
                LIMITS_SIGNAL, LimitsChange()
            )  # changes nothing but the length of the history
            return await runs_of(client, handle) > 0

        async def has_taken_over() -> bool:
            commands = commands_of((await client.get_workflow_handle(handle.id).fetch_history()).events)
            return "activity await_requests" in commands

        await until(continued)
        await until(has_taken_over)
        await handle.signal(CANCEL_SIGNAL, "enough")
        await handle.result()
        first = client.get_workflow_handle(handle.id, run_id=handle.first_execution_run_id)
        return {
            "launch-continued-1": await first.fetch_history(),
            "launch-continued-2": await client.get_workflow_handle(handle.id).fetch_history(),
        }


async def _refused_launch(client: Client) -> Recorded:
    """Two requests of one endpoint: the first is refused, so the second pauses, too; the launch is cancelled then."""
    fakes, calling = Requests(["a"]), Gate()
    fakes.on(PREFLIGHT, lambda _: PreflightReport(endpoints=[RequestEndpoints(model="host#1")] * 2))

    async def refuse(input: PhaseInput) -> None:
        await calling()
        raising(issue(code="model_authentication"))(input)

    fakes.on(RUN_HARNESS, refuse)
    async with stage(client, fakes) as scene:
        handle = await scene.launch(*named("one", "two"), task_concurrency=1)
        requests = [client.get_workflow_handle(f"{handle.id}/{key}") for key in ("one", "two")]

        async def sent(signal: str, *times: int) -> bool:
            histories = [await workflow.fetch_history() for workflow in (handle, *requests)]
            counts = [commands_of(history.events).count(f"signal {signal}") for history in histories]
            return counts == list(times)

        await until(lambda: state_is(requests[1], "running"))
        await until(lambda: sent("allowance", 2, 0, 0))
        calling.opened.set()
        await until(lambda: sent("endpoint", 2, 1, 0))
        await until(lambda: sent("demand", 0, 3, 2))
        await handle.signal(CANCEL_SIGNAL, "enough")
        await handle.result()
        return {
            "launch-refused": await handle.fetch_history(),
            "request-refused": await requests[0].fetch_history(),
            "request-held": await requests[1].fetch_history(),
        }


async def _host_lost(client: Client) -> Recorded:
    """A phase waits for a host of which no worker is there, and the attempt is executed again elsewhere."""
    fakes = FakeActivities()

    def opened(input: OpenEnvironmentInput) -> OpenedEnvironment:
        found = EnvironmentHandle(provider="sandbox", id=environment_id(input.ref))
        return OpenedEnvironment(handle=found, task_queue="host/gone" if input.ref.execution == 1 else None)

    fakes.on(OPEN_ENVIRONMENT, opened)
    async with stage(client, fakes) as scene:
        handle = await scene.attempt(host_lost_after=0.5)
        await handle.result()
        return {"attempt-host-lost": await handle.fetch_history()}


async def _scheduled_launch(client: Client) -> Recorded:
    """What a schedule starts: a launch of its own."""
    async with stage(client, FakeActivities(["a"])) as scene:
        handle = await scene.scheduled()
        await handle.result()
        return {"scheduled-launch": await handle.fetch_history()}


async def _pooled_attempt(client: Client) -> Recorded:
    """One of a provider with a pool."""
    async with stage(client, FakeActivities(plan=plan(pooled=["sandbox"])), places=True) as scene:
        handle = await scene.attempt()
        await handle.result()
        return {"attempt-pooled": await handle.fetch_history()}


async def _pool(client: Client) -> Recorded:
    """Two attempts take turns in the only place there is."""
    async with stage(client, FakeActivities()) as scene:
        handle = await client.start_workflow(
            POOL_WORKFLOW,
            PoolInput(provider="sandbox", state=PoolState(settings=PoolSettings(capacity=1))),
            id=f"pool-{scene.launch_id}",
            task_queue=scene.queue,
        )

        async def shows(held: int, waiting: int) -> None:
            async def as_wanted() -> bool:
                status = await handle.query(STATUS_QUERY, result_type=PoolStatus)
                return (sum(status.held.values()), sum(status.waiting.values())) == (held, waiting)

            await until(as_wanted)

        for name, waiting in (("a", 0), ("b", 1)):
            request = LeaseRequest(workflow_id=name, launch="launch", environment_id=f"env-{name}")
            await handle.signal(ACQUIRE_SIGNAL, request)
            await shows(1, waiting)
        for name, held in (("a", 1), ("b", 0)):
            await handle.signal(RELEASE_SIGNAL, args=[name, f"env-{name}"])
            await shows(held, 0)
        await handle.signal(POOL_LIMITS_SIGNAL, PoolChange(capacity=0))
        await handle.result()
        return {"pool": await handle.fetch_history()}


async def _reaper(client: Client) -> Recorded:
    """A look at the environments of a cluster."""
    async with stage(client, FakeActivities()) as scene:
        handle = await client.start_workflow(
            REAPER_WORKFLOW, ReapInput(), id=f"reaper-{scene.launch_id}", task_queue=scene.queue
        )
        await handle.result()
        return {"reaper": await handle.fetch_history()}


_COMMANDS: dict[int, Callable[[HistoryEvent], str]] = {
    EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED: lambda event: (
        f"activity {event.activity_task_scheduled_event_attributes.activity_type.name}"
    ),
    EventType.EVENT_TYPE_MARKER_RECORDED: lambda event: _marker(event),
    EventType.EVENT_TYPE_TIMER_STARTED: lambda _: "timer",
    EventType.EVENT_TYPE_TIMER_CANCELED: lambda _: "timer canceled",
    EventType.EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED: lambda event: (
        f"child {event.start_child_workflow_execution_initiated_event_attributes.workflow_type.name}"
    ),
    EventType.EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED: lambda event: (
        f"signal {event.signal_external_workflow_execution_initiated_event_attributes.signal_name}"
    ),
    EventType.EVENT_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED: lambda _: "cancel external",
    EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES: lambda _: "search attributes",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED: lambda _: "completed",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW: lambda _: "continued as new",
}


def _marker(event: HistoryEvent) -> str:
    details = event.marker_recorded_event_attributes.details
    if "data" not in details:
        return f"marker {event.marker_recorded_event_attributes.marker_name}"
    return f"local activity {json.loads(details['data'].payloads[0].data)['activity_type']}"


def commands_of(events: Iterable[HistoryEvent]) -> list[str]:
    """What the workflow told the server to do, in order."""
    return [_COMMANDS[event.event_type](event) for event in events if event.event_type in _COMMANDS]
