"""Which attempts of a request hold a slot: pure bookkeeping of its window."""

from __future__ import annotations

from collections import deque

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from ..contracts.workflows import ParkedAttempt, ParkReason, RequestState, RunningAttempt


class Slots:
    """Running attempts, those of them that wait without a slot, and those that want one back."""

    def __init__(self, state: RequestState | None = None) -> None:
        """``state`` is what the run before this one left."""
        self.running: dict[str, RunningAttempt] = {}
        self.parked: dict[str, ParkedAttempt] = {}
        self.waiting: deque[str] = deque()
        if state is not None:
            self.running.update((attempt.workflow_id, attempt) for attempt in state.running)
            self.parked.update((attempt.workflow_id, attempt) for attempt in state.parked)
            self.waiting.extend(state.waiting)

    @property
    def taken(self) -> int:
        """Slots in use."""
        return len(self.running) - len(self.parked)

    def start(self, attempt: RunningAttempt) -> None:
        """An attempt takes a slot."""
        self.running[attempt.workflow_id] = attempt

    def end(self, workflow_id: str) -> None:
        """An attempt is over; whatever it held is free."""
        self.running.pop(workflow_id, None)
        self.parked.pop(workflow_id, None)
        if workflow_id in self.waiting:
            self.waiting.remove(workflow_id)

    def park(self, attempt: ParkedAttempt) -> bool:
        """An attempt gives its slot back. False for one that is over already, or that nobody knows."""
        if attempt.workflow_id not in self.running:
            return False
        self.parked[attempt.workflow_id] = attempt
        return True

    def want(self, workflow_id: str) -> None:
        """A parked attempt wants to go on."""
        if workflow_id in self.parked and workflow_id not in self.waiting:
            self.waiting.append(workflow_id)

    def unblock(self) -> None:
        """Every attempt that waited for the endpoint wants to go on."""
        for workflow_id, attempt in self.parked.items():
            if attempt.reason is ParkReason.BLOCKED:
                self.want(workflow_id)

    def grant(self) -> str:
        """Give a slot to the attempt that waits longest; returns its workflow id."""
        workflow_id = self.waiting.popleft()
        del self.parked[workflow_id]
        return workflow_id
