"""Places and turns of an environment provider over all launches: who may open one next. Pure.

A pool hands out leases. With a capacity, a lease is a place that is held until the environment is closed or
its holder is gone; with an open rate, it says from when on the environment may be opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from .base import Contract
from .packing import pack, unpack
from .pool_lines import Lines, PlaceKey

AHEAD_SECONDS = 10.0
"""How far ahead turns are handed out: a pool with a rate wakes up every few seconds, not for every turn."""
REMEMBERED_SECONDS = 3600.0
"""How long a turn can be asked for that holds no place, should nobody say that its environment is closed."""
MAX_WAITING = 20_000
"""Who comes when so many wait already asks again later, or takes the place of somebody whose launch has more waiting."""
MAX_STATE_BYTES = 1_200_000
"""Of what is carried over, packed: Temporal takes two million. Who does not fit in asks again."""
_PLAIN_ENTRIES = 300
"""Up to which the state can be read in the Temporal UI."""
_MEMBERS = 500
"""Of those that hold a place, and of those that wait, that are named in one answer."""


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
    look: int = Field(default=0, ge=0)
    """How many looks at the members there were before: each names others, where there are very many."""


class PlacesAnswer(Contract):
    """Who may go on and who has to wait; those in neither list have to ask for a place again."""

    granted: list[Grant] = Field(default_factory=list)
    waiting: list[Place] = Field(default_factory=list)
    members: list[str] = Field(default_factory=list)
    """Workflow ids of attempts that hold a place or wait, where somebody waits for a place and it was asked for."""


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

    @model_validator(mode="before")
    @classmethod
    def _unpack(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("packed"), str):
            plain = {name: value for name, value in data.items() if name != "packed"}
            return {**plain, **unpack(data["packed"])}
        return data

    @model_serializer(mode="wrap")
    def _pack(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Many entries go packed: their names are long and nearly the same."""
        values: dict[str, Any] = plain(self)
        if len(self.granted) + len(self.leases) + len(self.waiting) <= _PLAIN_ENTRIES:
            return values
        many = {name: values.pop(name) for name in ("granted", "leases", "waiting")}
        return {**values, "packed": pack(many)}


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
        self._places = Counter(lease.launch for lease in state.leases)
        """By launch."""
        self._waiting: Lines[LeaseRequest] = Lines()
        for request in state.waiting:
            self._waiting.add(request, holds=request.workflow_id in self._held)
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
        return len(self._waiting) > 0 and self._free == 0

    def granted_to(self, place: Place) -> Grant | None:
        """What was given for an environment, as long as it is not closed."""
        return self._granted.get(place.key)

    def answer(self, asked: PlacesAsked) -> PlacesAnswer:
        """What became of attempts that wait in one worker process."""
        return PlacesAnswer(
            granted=[self._granted[place.key] for place in asked.places if place.key in self._granted],
            waiting=[place for place in asked.places if place.key in self._waiting],
            members=self._members(asked.look) if asked.with_members and self.full else [],
        )

    def waiting_of(self) -> Counter[str]:
        """How many attempts of each launch wait."""
        return Counter(self._waiting.counts())

    def held_by(self) -> Counter[str]:
        """How many places each launch holds."""
        return Counter(self._places)

    def state(self, now: float) -> PoolState:
        """For the next run of the workflow; no larger than what can be carried over."""
        most = MAX_WAITING
        while True:
            state = self._state(now, most)
            if most == 0 or len(state.model_dump_json()) <= MAX_STATE_BYTES:
                return state
            most = min(most, len(self._waiting)) // 2

    def _state(self, now: float, most: int) -> PoolState:
        """With at most so many that wait, as many of each launch."""
        known = {*self.held_by(), *self.waiting_of()}
        waiting = list(self._waiting)
        if len(waiting) > most:
            share = most // len(self.waiting_of())
            waiting = [item for name in self.waiting_of() for item in islice(self._waiting.of(name), share)]
        return PoolState(
            settings=self._settings,
            leases=list(self._leases.values()),
            waiting=waiting,
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
            for key in list(self._leases):
                self._give_up(key)

    def acquire(self, request: LeaseRequest) -> None:
        """An attempt wants to open an environment; what it holds already it keeps."""
        if request.key in self._granted:
            return  # it has asked before, and the answer got lost
        holds = self._holds(request)
        if (
            request.key in self._waiting
            or holds
            or len(self._waiting) < MAX_WAITING
            or self._make_room(request)
        ):
            self._waiting.add(request, holds=holds)

    def _make_room(self, request: LeaseRequest) -> bool:
        """Send away the last one of the launch that has most waiting, unless that is the request's own."""
        counts = self._waiting.counts()
        crowd = max(counts, key=lambda name: (counts[name], name))
        last = self._waiting.last_new(crowd)
        if last is None or counts.get(request.launch, 0) + 1 >= counts[crowd]:
            return False
        self._waiting.remove(last.key)
        return True

    def release(self, workflow_id: str, environment_id: str) -> None:
        """The environment is closed, or not wanted any more. Others of the same attempt keep their places."""
        self._forget((workflow_id, environment_id))

    def drop(self, workflow_ids: Iterable[str]) -> None:
        """These attempts are gone, and all their environments with them."""
        gone = set(workflow_ids)
        waiting = [key for workflow_id in sorted(gone) for key in self._waiting.of_attempt(workflow_id)]
        for key in [*[key for key in {**self._leases, **self._granted} if key[0] in gone], *waiting]:
            self._forget(key)

    def _forget(self, key: PlaceKey) -> None:
        self._give_up(key)
        self._waiting.remove(key)
        self._granted.pop(key, None)

    def _give_up(self, key: PlaceKey) -> None:
        lease = self._leases.pop(key, None)
        if lease is None:
            return
        for counter, name in ((self._held, lease.workflow_id), (self._places, lease.launch)):
            counter[name] -= 1
            if not counter[name]:
                del counter[name]
        if lease.workflow_id not in self._held:
            self._waiting.now_holds(lease.workflow_id, holds=False)

    def take_grants(self, now: float) -> list[Grant]:
        """Hand out what there is at ``now`` (Unix seconds): evenly between launches, in order within one."""
        granted: list[Grant] = []
        held, heads = self.held_by(), self._waiting.heads()
        while candidates := [name for name, head in heads.items() if self._may_grant(head, now)]:
            launch = min(
                candidates,
                key=lambda name: (
                    not self._holds(heads[name]),
                    held[name],
                    self._last_grant_of.get(name, 0),
                ),
            )
            held[launch] += 1
            granted.append(self._grant(heads[launch], now))
            heads = self._waiting.heads()
        return granted

    def wake_at(self, now: float) -> float | None:
        """When something changes by itself: a turn comes up, or the pool is over; ``None`` for never."""
        if self._idle and self._last_turn > now:
            return self._last_turn
        turns = [
            self._turn(head, now) - AHEAD_SECONDS / 2
            for head in self._waiting.heads().values()
            if self._has_place(head)
        ]
        return max(now, min(turns)) if turns else None

    @property
    def _idle(self) -> bool:
        return self._settings.off and not self._leases and not len(self._waiting)

    @property
    def _last_turn(self) -> float:
        return max([self._next_turn, *self._next_turn_of.values()])

    def _members(self, look: int) -> list[str]:
        holders = _some(list(dict.fromkeys(workflow_id for workflow_id, _ in self._leases)), look)
        waiting = _some(list(dict.fromkeys(request.workflow_id for request in self._waiting)), look)
        return list(dict.fromkeys([*holders, *waiting]))

    @property
    def _free(self) -> int | None:
        """Places that are left; ``None`` without a capacity."""
        capacity = self._settings.capacity
        return max(0, capacity - len(self._leases)) if capacity else None

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
        self._waiting.remove(request.key)
        if self._settings.capacity:
            if request.key not in self._leases:
                self._held[request.workflow_id] += 1
                self._places[request.launch] += 1
            self._leases[request.key] = Lease(
                workflow_id=request.workflow_id,
                launch=request.launch,
                environment_id=request.environment_id,
            )
            self._waiting.now_holds(request.workflow_id, holds=True)
        self._grants += 1
        self._last_grant_of[request.launch] = self._grants
        grant = Grant(workflow_id=request.workflow_id, environment_id=request.environment_id, not_before=turn)
        self._granted[request.key] = grant
        return grant


def _some(names: list[str], look: int) -> list[str]:
    """Not too many: the next ones at each look, from the first again after the last."""
    pages = max(1, -(-len(names) // _MEMBERS))
    begin = look % pages * _MEMBERS
    return names[begin : begin + _MEMBERS]
