"""Inputs and outputs of activities around environments: leases of pools, and the removal of what was left."""

from __future__ import annotations

from pydantic import Field

from .base import Contract
from .pool import Grant
from .references import ExecutionRef


class LeaseInput(Contract):
    """Ask the pool of a provider for a place and a turn."""

    ref: ExecutionRef
    provider: str
    for_evaluation: bool = False


class LeaseAnswer(Contract):
    """What the pool says at once: a place and a turn, or that it will tell the attempt by a signal."""

    waits: bool
    """True when the attempt has to wait for the signal; False with a grant, and where there is no pool."""
    grant: Grant | None = None


class GrantInput(Contract):
    """Tell attempts that they may open their environments."""

    grants: list[Grant]


class PresenceInput(Contract):
    """Ask a host whether it is there."""

    task_queue: str
    """The host's own queue."""


class HoldersInput(Contract):
    """Look whether attempts are still there."""

    workflow_ids: list[str]


class GoneHolders(Contract):
    """Attempts that are over: what they held is free."""

    workflow_ids: list[str] = Field(default_factory=list)


class ReapInput(Contract):
    """Look after environments that any machine can reach."""


class SweepReport(Contract):
    """What a look at the environments came to."""

    released: list[str] = Field(default_factory=list)
    """Ids of the environments that are gone now."""
    failed: list[str] = Field(default_factory=list)
    """Ids, and why they are still there; they are tried again."""
    left: int = 0
    """Environments that somebody may need, or that belong to others."""
    problems: list[str] = Field(default_factory=list)
    """Providers that could not be asked, and why."""
