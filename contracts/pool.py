"""Places and turns of an environment provider over all launches: who may open one next. Pure.

A pool hands out leases. With a capacity, a lease is a place that is held until the environment is closed or
its holder is gone; with an open rate, it says from when on the environment may be opened.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from typing import TypeVar

from pydantic import Field

from .base import Contract

AHEAD_SECONDS = 10.0
"""How far ahead turns are handed out: a pool with a rate wakes up every few seconds, not for every turn."""
REMEMBERED_SECONDS = 3600.0
"""How long a turn can be asked for that holds no place, should nobody say that its environment is closed."""


class PoolSettings(Contract):
    """The limits of one provider; 0 is none."""

    capacity: int = Field(default=0, ge=0, le=1_000_000)
    """Environments that may be open at a time."""
    open_per_second: float = Field(default=0.0, ge=0, le=1_000_000)
    """Environments that may be opened in a second."""

    @property
    def off(self) -> bool:
        """True when there is nothing to keep to."""
        return self.capacity == 0 and self.open_per_second == 0


class PoolChange(Contract):
    """New limits; what is ``None`` stays."""

    capacity: int | None = Field(default=None, ge=0, le=1_000_000)
    open_per_second: float | None = Field(default=None, ge=0, le=1_000_000)


class LeaseRequest(Contract):
    """An attempt that wants to open an environment."""

    workflow_id: str
    launch: str
    environment_id: str
    begun: bool = False
    """True for an attempt that has used an environment already: it goes before those of its launch that have not."""
    open_per_second: float = Field(default=0.0, ge=0)
    """The rate of its own launch; 0 is none."""


class Lease(Contract):
    """A place that is taken."""

    workflow_id: str
    launch: str
    environment_id: str


class Grant(Contract):
    """Tells an attempt that it may open its environment, from ``not_before`` (Unix seconds) on."""

    workflow_id: str
    environment_id: str
    not_before: float = 0.0


class PlacesAsked(Contract):
    """A worker process asks for the attempts that wait in it."""

    workflow_ids: list[str]
    with_members: bool = False


class PlacesAnswer(Contract):
    """Who may go on and who has to wait; those in neither list have to ask for a place again."""

    granted: list[Grant] = Field(default_factory=list)
    waiting: list[str] = Field(default_factory=list)
    members: list[str] = Field(default_factory=list)
    """Every attempt that holds a place or waits, where somebody waits for a place and it was asked for."""


class PoolState(Contract):
    """What a pool carries over ``continue_as_new``."""

    settings: PoolSettings = Field(default_factory=PoolSettings)
    granted: list[Grant] = Field(default_factory=list)
    """What attempts may ask for that waited: of those that hold a place, and of turns that are not long over."""
    leases: list[Lease] = Field(default_factory=list)
    waiting: list[LeaseRequest] = Field(default_factory=list)
    next_turn: float = 0.0
    next_turn_of: dict[str, float] = Field(default_factory=dict)
    """By launch, for those with a rate of their own."""
    grants: int = 0
    last_grant_of: dict[str, int] = Field(default_factory=dict)
    """By launch: the number of its latest grant. Of two launches with as many places, the one served less recently is next."""


class Pool:
    """One provider's pool. An attempt holds at most one lease; every call may be repeated."""

    def __init__(self, state: PoolState) -> None:
        self._settings = state.settings
        self._leases = {lease.workflow_id: lease for lease in state.leases}
        self._waiting = {request.workflow_id: request for request in state.waiting}
        self._granted = {grant.workflow_id: grant for grant in state.granted}
        self._next_turn = state.next_turn
        self._next_turn_of = dict(state.next_turn_of)
        self._grants = state.grants
        self._last_grant_of = dict(state.last_grant_of)

    @property
    def settings(self) -> PoolSettings:
        """The limits."""
        return self._settings

    def over(self, now: float) -> bool:
        """True when there is nothing to keep to: no limits, no launch with a rate of its own, nobody here."""
        return self._idle and self._last_turn <= now

    @property
    def full(self) -> bool:
        """True when somebody waits for a place."""
        return bool(self._waiting) and self._free == 0

    def granted_to(self, workflow_id: str) -> Grant | None:
        """What an attempt was given last, as long as its environment is not closed."""
        return self._granted.get(workflow_id)

    def answer(self, asked: PlacesAsked) -> PlacesAnswer:
        """What became of attempts that wait in one worker process."""
        return PlacesAnswer(
            granted=[self._granted[name] for name in asked.workflow_ids if name in self._granted],
            waiting=[name for name in asked.workflow_ids if name in self._waiting],
            members=[*self._leases, *self._waiting] if asked.with_members and self.full else [],
        )

    def waiting_of(self) -> Counter[str]:
        """How many attempts of each launch wait."""
        return Counter(request.launch for request in self._waiting.values())

    def held_by(self) -> Counter[str]:
        """How many places each launch holds."""
        return Counter(lease.launch for lease in self._leases.values())

    def state(self, now: float) -> PoolState:
        """For the next run of the workflow."""
        known = {*self.held_by(), *self.waiting_of()}
        return PoolState(
            settings=self._settings,
            leases=list(self._leases.values()),
            waiting=list(self._waiting.values()),
            granted=[
                grant
                for name, grant in self._granted.items()
                if name in self._leases or grant.not_before > now - REMEMBERED_SECONDS
            ],
            next_turn=self._next_turn,
            next_turn_of={
                name: turn for name, turn in self._next_turn_of.items() if name in known or turn > now
            },
            grants=self._grants,
            last_grant_of={name: last for name, last in self._last_grant_of.items() if name in known},
        )

    def change(self, change: PoolChange) -> None:
        """New limits. A smaller capacity ends nothing: places come free as attempts end."""
        self._settings = PoolSettings(
            **{**self._settings.model_dump(), **change.model_dump(exclude_none=True)}
        )
        if self._settings.capacity == 0:
            self._leases.clear()

    def acquire(self, request: LeaseRequest) -> None:
        """An attempt wants to open an environment; one that holds a place already keeps it."""
        granted = self._granted.get(request.workflow_id)
        if granted is not None and granted.environment_id == request.environment_id:
            return  # it has asked before, and the answer got lost
        self._granted.pop(request.workflow_id, None)
        self._waiting[request.workflow_id] = request

    def release(self, workflow_id: str, environment_id: str) -> None:
        """The environment is closed, or not wanted any more. A late word about an earlier one changes nothing."""
        _forget(self._leases, workflow_id, environment_id)
        _forget(self._waiting, workflow_id, environment_id)
        _forget(self._granted, workflow_id, environment_id)

    def drop(self, workflow_ids: Iterable[str]) -> None:
        """These attempts are gone."""
        for workflow_id in workflow_ids:
            self._leases.pop(workflow_id, None)
            self._waiting.pop(workflow_id, None)
            self._granted.pop(workflow_id, None)

    def take_grants(self, now: float) -> list[Grant]:
        """Hand out what there is at ``now`` (Unix seconds): evenly between launches, in order within one."""
        queues = self._queues()
        held = self.held_by()
        granted: list[Grant] = []
        while candidates := [name for name in queues if self._may_grant(queues[name][0], now)]:
            launch = min(
                candidates,
                key=lambda name: (
                    not self._holds(queues[name][0]),
                    held[name],
                    self._last_grant_of.get(name, 0),
                ),
            )
            request = queues[launch].popleft()
            if not queues[launch]:
                del queues[launch]
            if not self._holds(request):
                held[launch] += 1
            granted.append(self._grant(request, now))
        return granted

    def wake_at(self, now: float) -> float | None:
        """When something changes by itself: a turn comes up, or the pool is over; ``None`` for never."""
        if self._idle and self._last_turn > now:
            return self._last_turn
        turns = [
            self._turn(queue[0], now) - AHEAD_SECONDS / 2
            for queue in self._queues().values()
            if self._has_place(queue[0])
        ]
        return max(now, min(turns)) if turns else None

    @property
    def _idle(self) -> bool:
        return self._settings.off and not self._leases and not self._waiting

    @property
    def _last_turn(self) -> float:
        return max([self._next_turn, *self._next_turn_of.values()])

    @property
    def _free(self) -> int | None:
        """Places that are left; ``None`` without a capacity."""
        capacity = self._settings.capacity
        return max(0, capacity - len(self._leases)) if capacity else None

    def _queues(self) -> dict[str, deque[LeaseRequest]]:
        queues: dict[str, deque[LeaseRequest]] = defaultdict(deque)
        for first in (True, False):
            for request in self._waiting.values():
                if (request.begun or self._holds(request)) is first:
                    queues[request.launch].append(request)
        return queues

    def _holds(self, request: LeaseRequest) -> bool:
        return request.workflow_id in self._leases

    def _has_place(self, request: LeaseRequest) -> bool:
        return self._free != 0 or self._holds(request)

    def _may_grant(self, request: LeaseRequest, now: float) -> bool:
        return self._has_place(request) and self._turn(request, now) <= now + AHEAD_SECONDS

    def _turn(self, request: LeaseRequest, now: float) -> float:
        return max(now, self._next_turn, self._next_turn_of.get(request.launch, 0.0))

    def _grant(self, request: LeaseRequest, now: float) -> Grant:
        turn = self._turn(request, now)
        if self._settings.open_per_second:
            self._next_turn = turn + 1 / self._settings.open_per_second
        if request.open_per_second:
            self._next_turn_of[request.launch] = turn + 1 / request.open_per_second
        del self._waiting[request.workflow_id]
        if self._settings.capacity:
            self._leases[request.workflow_id] = Lease(
                workflow_id=request.workflow_id,
                launch=request.launch,
                environment_id=request.environment_id,
            )
        self._grants += 1
        self._last_grant_of[request.launch] = self._grants
        grant = Grant(workflow_id=request.workflow_id, environment_id=request.environment_id, not_before=turn)
        self._granted[request.workflow_id] = grant
        return grant


_KnownT = TypeVar("_KnownT", Lease, LeaseRequest, Grant)


def _forget(known: dict[str, _KnownT], workflow_id: str, environment_id: str) -> None:
    found = known.get(workflow_id)
    if found is not None and found.environment_id == environment_id:
        del known[workflow_id]
