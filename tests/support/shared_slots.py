"""Launches of several requests whose attempts stand before gates, so that a test sees who has which slots."""

from __future__ import annotations

from typing import Any

from activity_fakes import FakeActivities, Gate
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError
from workflow_server import run_request, until

from agentcompass.contracts.activities import (
    PENDING_TASKS,
    PREPARE_REQUEST,
    RUN_HARNESS,
    PhaseInput,
    PreparedRequest,
    PrepareRequestInput,
)
from agentcompass.contracts.workflows import LIMITS_SIGNAL, LimitsChange


class Requests(FakeActivities):
    """Fakes whose requests have run directories of their own, and whose runs stand before gates."""

    def __init__(self, tasks: list[str], *, held: str = "") -> None:
        super().__init__(tasks)
        self.gates: dict[str, Gate] = {}
        self.order: list[str] = []
        self.running: dict[str, int] = {}
        self.most = 0
        self._held = held
        self.on(PREPARE_REQUEST, self._prepare)
        self.on(RUN_HARNESS, self._run)
        # Requests have the same tasks here, and what one of them finished is not finished in another.
        self.on(PENDING_TASKS, lambda _: self.finished.clear())

    def gate(self, request: str) -> Gate:
        """The gate before which all runs of a request stand."""
        return self.gates.setdefault(request, Gate())

    def _prepare(self, input: PrepareRequestInput) -> PreparedRequest:
        return PreparedRequest(
            run_dir=f"/runs/{input.request_key}",
            run_id=input.request_key,
            total_tasks=len(self.tasks),
        )

    async def _run(self, input: PhaseInput) -> None:
        request = input.ref.run_dir.rpartition("/")[2]
        self.order.append(request)
        self.running[request] = self.running.get(request, 0) + 1
        self.most = max(self.most, sum(self.running.values()))
        gate = self.gate(request)
        if request not in self._held:
            gate.opened.set()
        try:
            await gate()
        finally:
            self.running[request] -= 1


def named(*names: str) -> list[Any]:
    """Requests of these names."""
    return [run_request(name) for name in names]


async def standing(fakes: Requests, **expected: int) -> bool:
    """Whether so many attempts of each request stand before their gates, and no others."""
    return {name: count for name, count in fakes.running.items() if count} == expected


async def runs_of(client: Client, handle: WorkflowHandle[Any, Any]) -> int:
    """How often a workflow has continued as new."""
    count, current = 0, client.get_workflow_handle(handle.id, run_id=handle.first_execution_run_id)
    while True:
        following = [
            event.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
            for event in (await current.fetch_history()).events
            if event.HasField("workflow_execution_continued_as_new_event_attributes")
        ]
        if not following:
            return count
        count += 1
        current = client.get_workflow_handle(handle.id, run_id=following[0])


async def continued(client: Client, handle: WorkflowHandle[Any, Any], times: int) -> bool:
    """Whether a workflow has continued as new so often."""
    return await runs_of(client, handle) >= times


async def fill_history(client: Client, handle: WorkflowHandle[Any, Any]) -> None:
    """Signals that change nothing, until the launch has continued as new once more."""
    current = client.get_workflow_handle(handle.id)
    before = (await current.describe()).run_id

    async def again() -> bool:
        await handle.signal(LIMITS_SIGNAL, LimitsChange())
        return (await current.describe()).run_id != before

    await until(again)


async def state_is(handle: WorkflowHandle[Any, Any], state: str) -> bool:
    """Whether its status query says so."""
    try:
        return bool((await handle.query("status"))["state"] == state)
    except RPCError:  # the run has only just begun
        return False
