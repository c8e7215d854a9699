"""Places and turns of an environment provider over all launches: who may open one next. Pure.

A pool hands out leases. With a capacity, a lease is a place that is held until the environment is closed or
its holder is gone; with an open rate, it says from when on the environment may be opened.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from typing import Any

from pydantic import Field, model_validator

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


PlaceKey = tuple[str, str]
"""Workflow id of the attempt, and id of its environment."""


class Place(Contract):
    """One environment of one attempt. A step's verifier has its own beside the one in which the agent works."""

    workflow_id: str
    environment_id: str

    @property
    def key(self) -> PlaceKey:
        """What tells it from all others."""
        return self.workflow_id, self.environment_id


class LeaseRequest(Place):
    """An attempt that wants to open an environment."""

    launch: str
    begun: bool = False
    """True for an attempt that has used an environment already: it goes before those of its launch that have not."""
    open_per_second: float = Field(default=0.0, ge=0)
    """The rate of its own launch; 0 is none."""


class Lease(Place):
    """A place that is taken."""

    launch: str


class Grant(Place):
    """Tells an attempt that it may open its environment, from ``not_before`` (Unix seconds) on."""

    not_before: float = 0.0


class PlacesAsked(Contract):
    """A worker process asks for the attempts that wait in it."""

    places: list[Place]
    with_members: bool = False


class PlacesAnswer(Contract):
    """Who may go on and who has to wait; those in neither list have to ask for a place again."""

    granted: list[Grant] = Field(default_factory=list)
    waiting: list[Place] = Field(default_factory=list)
    members: list[str] = Field(default_factory=list)
    """Workflow id of every attempt that holds a place or waits, where somebody waits for a place and it was asked for."""


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

    @model_validator(mode="before")
    @classmethod
    def _drop_outbox(cls, data: Any) -> Any:
        """Pools that began before attempts asked by themselves carry whom to tell; refused, they would never end."""
        if isinstance(data, dict) and "outbox" in data:
            return {name: value for name, value in data.items() if name != "outbox"}
        return data


class Pool:
    """One provider's pool. An attempt holds a lease for each environment it has open; every call may be repeated.

    One that holds a lease gets the next one at once, over the capacity: who waits for a place while holding one
    might wait for itself.
    """

    def __init__(self, state: PoolState) -> None:
        self._settings = state.settings
        self._leases = {lease.key: lease for lease in state.leases}
        self._held = Counter(lease.workflow_id for lease in state.leases)
        """By attempt: how many leases it holds."""
        self._waiting = {request.key: request for request in state.waiting}
        self._granted = {grant.key: grant for grant in state.granted}
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

    def granted_to(self, place: Place) -> Grant | None:
        """What was given for an environment, as long as it is not closed."""
        return self._granted.get(place.key)

    def answer(self, asked: PlacesAsked) -> PlacesAnswer:
        """What became of attempts that wait in one worker process."""
        return PlacesAnswer(
            granted=[self._granted[place.key] for place in asked.places if place.key in self._granted],
            waiting=[place for place in asked.places if place.key in self._waiting],
            members=self._members if asked.with_members and self.full else [],
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
                for key, grant in self._granted.items()
                if key in self._leases or grant.not_before > now - REMEMBERED_SECONDS
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
            self._held.clear()

    def acquire(self, request: LeaseRequest) -> None:
        """An attempt wants to open an environment; what it holds already it keeps."""
        if request.key not in self._granted:  # else it has asked before, and the answer got lost
            self._waiting[request.key] = request

    def release(self, workflow_id: str, environment_id: str) -> None:
        """The environment is closed, or not wanted any more. Others of the same attempt keep their places."""
        self._forget((workflow_id, environment_id))

    def drop(self, workflow_ids: Iterable[str]) -> None:
        """These attempts are gone, and all their environments with them."""
        gone = set(workflow_ids)
        for key in [key for key in {**self._leases, **self._waiting, **self._granted} if key[0] in gone]:
            self._forget(key)

    def _forget(self, key: PlaceKey) -> None:
        if self._leases.pop(key, None) is not None:
            self._held[key[0]] -= 1
            if not self._held[key[0]]:
                del self._held[key[0]]
        self._waiting.pop(key, None)
        self._granted.pop(key, None)

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
    def _members(self) -> list[str]:
        return list(dict.fromkeys(workflow_id for workflow_id, _ in (*self._leases, *self._waiting)))

    @property
    def _free(self) -> int | None:
        """Places that are left; ``None`` without a capacity."""
        capacity = self._settings.capacity
        return max(0, capacity - len(self._leases)) if capacity else None

    def _queues(self) -> dict[str, deque[LeaseRequest]]:
        """By launch: first those that hold a place, which others may wait for, then those that have begun."""
        queues: dict[str, deque[LeaseRequest]] = defaultdict(deque)
        for request in sorted(
            self._waiting.values(), key=lambda item: (not self._holds(item), not item.begun)
        ):
            queues[request.launch].append(request)
        return queues

    def _holds(self, request: LeaseRequest) -> bool:
        return request.workflow_id in self._held

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
        del self._waiting[request.key]
        if self._settings.capacity:
            self._held[request.workflow_id] += request.key not in self._leases
            self._leases[request.key] = Lease(
                workflow_id=request.workflow_id,
                launch=request.launch,
                environment_id=request.environment_id,
            )
        self._grants += 1
        self._last_grant_of[request.launch] = self._grants
        grant = Grant(workflow_id=request.workflow_id, environment_id=request.environment_id, not_before=turn)
        self._granted[request.key] = grant
        return grant
