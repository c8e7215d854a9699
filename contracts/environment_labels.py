"""Whose sandbox it is: the labels that every sandbox carries at its provider, and what they say."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import ValidationError

from .base import Contract
from .workflows import attempt_workflow_id, launch_workflow_id, request_workflow_id

LEASE_SECONDS = 24 * 3600.0
"""How long a sandbox may live without a sign of life of its attempt. Heartbeats renew it."""

KEPT = "true"


class EnvironmentOwner(Contract):
    """The attempt that a sandbox was opened for; ``labels`` and ``of`` are each other's inverse."""

    launch: str
    request: str
    task: str
    attempt: int
    execution: int = 1
    generation: int = 0
    """How often an operator had the finished task executed again: each time is a workflow of its own."""
    expiry: float = 0.0
    """End of the lease as it was when the sandbox was opened, in Unix seconds."""
    keep: bool = False
    """True when the run asked for its environments to be kept (``keep_environment``)."""
    temporal: str = ""
    """Which Temporal namespace knows the attempt, by an id that no other namespace has."""

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> EnvironmentOwner | None:
        """The owner that labels name; ``None`` for those of somebody else."""
        known = {name: value for name, value in labels.items() if name in cls.model_fields}
        try:
            return cls.model_validate(known)
        except ValidationError:
            return None

    def labels(self) -> dict[str, str]:
        """The labels to store at the provider."""
        found = {
            "launch": self.launch,
            "request": self.request,
            "task": self.task,
            "attempt": str(self.attempt),
            "execution": str(self.execution),
            "expiry": str(int(self.expiry)),
        }
        if self.generation:
            found["generation"] = str(self.generation)
        if self.temporal:
            found["temporal"] = self.temporal
        return {**found, "keep": KEPT} if self.keep else found

    @property
    def workflow_id(self) -> str:
        """The attempt's workflow."""
        request_id = request_workflow_id(self.launch, self.request)
        return attempt_workflow_id(request_id, self.task, self.attempt, self.generation)

    @property
    def launch_workflow_id(self) -> str:
        """The workflow of the launch that the attempt belongs to."""
        return launch_workflow_id(self.launch)
