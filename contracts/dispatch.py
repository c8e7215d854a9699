"""How a launch shares its slots among requests: strictly in order, never more than there are. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from .base import Contract


class Demand(Contract):
    """What a request reports of itself; numbers are attempts."""

    prepared: bool = False
    pending: int = Field(default=0, ge=0)
    """Attempts that could start now, counted up to the launch's concurrency."""
    taken: int = Field(default=0, ge=0)
    """Slots in use."""
    slots: int = Field(default=0, ge=0)
    """The allowance that the request knows of; it may use that many before it hears of another."""


class Share(Contract):
    """A request as the launch sees it."""

    provider: str
    demand: Demand = Field(default_factory=Demand)
    allowed: int = Field(default=0, ge=0)
    """The allowance that was sent last."""
    ended: bool = False

    @property
    def committed(self) -> int:
        """Slots that it uses, or may be using without our having heard of it."""
        return 0 if self.ended else max(self.demand.taken, self.demand.slots, self.allowed)


def allocate(limit: int, provider_limits: Mapping[str, int], shares: Sequence[Share]) -> list[int]:
    """The allowance of each request: the earliest gets all that it can use, the next what is left.

    A lowered allowance frees slots only when its request has acknowledged it, so the sum of what is
    in use never exceeds ``limit``, nor a provider's limit (0 is none).
    """
    granted: list[int] = []
    for index, share in enumerate(shares):
        if share.ended or not share.demand.prepared:
            granted.append(0)
            continue
        others = [
            (other.provider, max(granted[place], other.committed) if place < index else other.committed)
            for place, other in enumerate(shares)
            if place != index
        ]
        free = limit - sum(slots for _, slots in others)
        cap = provider_limits.get(share.provider, 0)
        if cap > 0:
            free = min(free, cap - sum(slots for provider, slots in others if provider == share.provider))
        wanted = share.demand.taken + share.demand.pending
        granted.append(max(0, min(wanted, free)))
    return granted


def may_prepare_next(limit: int, shares: Sequence[Share]) -> bool:
    """Whether the request after ``shares``, which are all those before it, may load its tasks.

    Preparation is pipelined: all earlier ones are prepared, and together have fewer attempts left
    to start than there are slots.
    """
    living = [share for share in shares if not share.ended]
    return all(share.demand.prepared for share in living) and (
        sum(share.demand.pending for share in living) < limit
    )
