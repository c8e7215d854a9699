"""How a launch shares its slots among requests: strictly in order, never more than there are. Pure.

The two sides talk by numbered messages. The launch sends an :class:`Allowance`, a request answers with its
:class:`Demand` when that changes what the launch would do (:func:`is_news`); between the two, whatever a request
may be using counts as used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pydantic import Field

from .base import Contract

_STEPS = 32
"""A request gives slots back in at most this many messages, however many it had."""


class Allowance(Contract):
    """What a launch tells one of its requests."""

    number: int = Field(default=0, ge=0)
    """Counts the messages to this request; an older one that comes late is dropped."""
    slots: int = Field(default=0, ge=0)
    """Attempts that may run at a time; those beyond it are not ended, but not replaced either."""
    limit: int = Field(default=1, ge=0)
    """The whole launch's ``task_concurrency``."""
    may_finish: bool = False
    """True when no earlier request has an attempt left to start: the condition for the summary."""


class Demand(Contract):
    """What a request reports of itself; numbers are attempts."""

    number: int = Field(default=0, ge=0)
    """The last allowance that it heard of."""
    pending: int = Field(default=0, ge=0)
    """Attempts that could start now, counted up to the launch's concurrency."""
    taken: int = Field(default=0, ge=0)
    """Slots in use."""
    slots: int = Field(default=0, ge=0)
    """Slots that it will use before it hears of other ones: the allowance, less what it gave back."""
    limit: int = Field(default=0, ge=0)
    """The concurrency up to which ``pending`` is counted; 0 from requests of an older version, which do not tell it."""

    @property
    def cut(self) -> bool:
        """True when there may be more pending than it could tell."""
        return 0 < self.limit <= self.pending

    @property
    def wanted(self) -> int:
        """Slots that it could use."""
        return self.taken + self.pending


class Share(Contract):
    """A request as the launch sees it."""

    provider: str
    demand: Demand | None = None
    """``None`` until its tasks are loaded."""
    sent: Allowance = Field(default_factory=Allowance)
    unheard: list[Allowance] = Field(default_factory=list)
    """Allowances that it may not know of yet and may use when they arrive; each is less than the one before."""
    ended: bool = False
    held: bool = False
    """True while an endpoint refuses its account: it keeps what runs, and would use no further slot."""

    @property
    def current(self) -> int:
        """Slots that it has once all messages have arrived."""
        heard = self.demand is not None and self.demand.number == self.sent.number
        return self.demand.slots if heard and self.demand is not None else self.sent.slots

    @property
    def committed(self) -> int:
        """Slots that it uses, or may be using without our having heard of it."""
        if self.ended:
            return 0
        known = self.demand or Demand()
        return max([known.taken, known.slots, *(allowance.slots for allowance in self.unheard)])

    def send(self, allowance: Allowance) -> None:
        """Note what the request is told."""
        self.sent = allowance
        self.unheard = [earlier for earlier in self.unheard if earlier.slots > allowance.slots]
        self.unheard.append(allowance)

    def hear(self, demand: Demand) -> bool:
        """Note what the request says; False for a message that was overtaken by a later one."""
        if self.ended or (self.demand is not None and demand.number < self.demand.number):
            return False
        self.demand = demand
        self.unheard = [allowance for allowance in self.unheard if allowance.number > demand.number]
        return True

    def wanted(self, limit: int) -> int:
        """Slots that it could use in a launch of so many, as far as it is known."""
        if self.ended or self.demand is None:
            return 0
        return self.demand.taken + self.pending(limit)

    def pending(self, limit: int) -> int:
        """Attempts that it could start now in a launch of so many slots, as far as it is known.

        One that has told as many as a lower concurrency let it tell counts for all slots until it has answered.
        """
        if self.ended or self.held or self.demand is None:
            return 0
        return limit if self.demand.cut and limit > self.demand.limit else self.demand.pending

    @property
    def drained(self) -> bool:
        """True when it has no attempt left to start."""
        return self.ended or (self.demand is not None and (self.held or self.demand.pending == 0))


def allocate(limit: int, provider_limits: Mapping[str, int], shares: Sequence[Share]) -> list[int]:
    """The slots of each request: the earliest gets all that it can use, the next what is left.

    A lowered allowance frees slots only when its request has acknowledged it, so that what is in use
    never exceeds ``limit``, nor a provider's limit (0 is none), unless one of them was lowered meanwhile.
    """
    targets: list[int] = []
    for index, share in enumerate(shares):
        before = [(other.provider, targets[place]) for place, other in enumerate(shares[:index])]
        targets.append(min(share.wanted(limit), _room(limit, provider_limits, share.provider, before)))
    granted: list[int] = []
    for index, share in enumerate(shares):
        others = [
            (other.provider, max(granted[place], other.committed) if place < index else other.committed)
            for place, other in enumerate(shares)
            if place != index
        ]
        granted.append(min(targets[index], _room(limit, provider_limits, share.provider, others)))
    return granted


def _room(
    limit: int, provider_limits: Mapping[str, int], provider: str, held: Sequence[tuple[str, int]]
) -> int:
    """Slots that are free for a request of ``provider`` beside what others hold."""
    free = limit - sum(slots for _, slots in held)
    cap = provider_limits.get(provider, 0)
    if cap > 0:
        free = min(free, cap - sum(slots for other, slots in held if other == provider))
    return max(0, free)


def may_prepare_next(limit: int, shares: Sequence[Share]) -> bool:
    """Whether the request after ``shares``, which are all those before it, may load its tasks.

    Preparation is pipelined: all earlier ones are prepared, and together have fewer attempts left
    to start than there are slots.
    """
    living = [share for share in shares if not share.ended]
    return sum(share.pending(limit) for share in living) < limit and all(
        share.demand is not None for share in living
    )


def may_finish(shares: Sequence[Share]) -> list[bool]:
    """Which requests may be summarized: those before which nothing is left to start."""
    return [all(earlier.drained for earlier in shares[:index]) for index in range(len(shares))]


def is_news(last: Demand | None, now: Demand, heard: Allowance) -> bool:
    """Whether a request has to tell ``now`` to its launch, which was told ``last`` before.

    Few messages matter more than fresh numbers: a launch hears of a request that is prepared, runs
    out of attempts to start, has slots to give back, or wants more than it has.
    """
    if last is None:
        return True
    known = last.slots if last.number == now.number else max(last.slots, heard.slots)
    given_back = max(last.taken, known) - max(now.taken, now.slots)
    if given_back > 0 and (given_back >= max(1, heard.limit // _STEPS) or now.wanted == 0):
        return True
    if now.pending == 0 or (now.pending < heard.limit <= last.pending):
        return last.pending != now.pending
    return now.wanted > now.slots and last.wanted <= known


class Holding:
    """A request's side: its slots, what it heard, and what it told."""

    def __init__(self, heard: Allowance, slots: int, told: Demand | None = None, promised: int = 0) -> None:
        self.heard = heard
        self.slots = slots
        self.told = told
        self.promised = promised
        """The most slots of any allowance that came since something was told: so many it may use, for all the launch knows."""

    def hear(self, allowance: Allowance) -> None:
        """Take an allowance; one that was overtaken is dropped."""
        self.promised = max(self.promised, allowance.slots)
        if allowance.number > self.heard.number:
            self.heard, self.slots = allowance, allowance.slots

    def tell(self, pending: int, taken: int, *, answers: Callable[[], bool] = lambda: True) -> Demand | None:
        """What the launch has to hear now, if anything; slots that are of no use are given back with it.

        Two more things are told when ``answers`` agrees, because others wait for them: that slots were taken back before
        they could be used, and how much there is to start after a lower concurrency had cut that number.
        """
        pending = min(pending, self.heard.limit)
        demand = Demand(
            number=self.heard.number,
            pending=pending,
            taken=taken,
            slots=min(self.slots, taken + pending),
            limit=self.heard.limit,
        )
        if not is_news(self.told, demand, self.heard) and not (self._owes_answer(demand) and answers()):
            return None
        self.slots, self.told, self.promised = demand.slots, demand, 0
        return demand

    def _owes_answer(self, now: Demand) -> bool:
        last = self.told or Demand()
        if last.cut and self.heard.limit > last.limit:
            return True
        counted = max(last.taken, last.slots, self.heard.slots)
        return self.promised > max(counted, now.taken, now.slots)


def allowances(limit: int, provider_limits: Mapping[str, int], shares: Sequence[Share]) -> list[int]:
    """The launch's side: give every request its slots; returns the places of those that must be told.

    What they must be told is in their ``sent``.
    """
    changed: list[int] = []
    slots, finish = allocate(limit, provider_limits, shares), may_finish(shares)
    for place, share in enumerate(shares):
        if share.ended or share.demand is None:
            continue
        now = Allowance(
            number=share.sent.number + 1, slots=slots[place], limit=limit, may_finish=finish[place]
        )
        same = now.slots == share.current and now.limit == share.sent.limit
        if not same or now.may_finish != share.sent.may_finish:
            share.send(now)
            changed.append(place)
    return changed
