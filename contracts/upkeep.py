"""Inputs and outputs of activities around environments: their hosts, and the removal of what was left."""

from __future__ import annotations

from pydantic import Field

from .base import Contract


class PresenceInput(Contract):
    """Ask a host whether it is there."""

    task_queue: str
    """The host's own queue."""


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
