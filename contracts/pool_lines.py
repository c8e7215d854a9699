"""Who waits for a place of a pool, launch by launch and in order. Pure, and quick with very many that wait."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping
from typing import Generic, Protocol, TypeVar

PlaceKey = tuple[str, str]
"""Workflow id of the attempt, and id of its environment."""


class Waiter(Protocol):
    """What a line has to know of a request."""

    @property
    def key(self) -> PlaceKey: ...
    @property
    def workflow_id(self) -> str: ...
    @property
    def launch(self) -> str: ...
    @property
    def begun(self) -> bool: ...


_HOLDS, _BEGUN, _NEW = range(3)
"""Who is before whom: those that hold a place, which others may wait for; then those that have begun."""


WaiterT = TypeVar("WaiterT", bound=Waiter)


class Lines(Generic[WaiterT]):
    """A line for each launch."""

    def __init__(self) -> None:
        self._ranks: dict[str, tuple[OrderedDict[PlaceKey, WaiterT], ...]] = {}
        self._place: dict[PlaceKey, tuple[str, int]] = {}
        """Launch and rank of each."""
        self._keys: defaultdict[str, set[PlaceKey]] = defaultdict(set)
        """By attempt."""

    def __len__(self) -> int:
        return len(self._place)

    def __contains__(self, key: PlaceKey) -> bool:
        return key in self._place

    def __iter__(self) -> Iterator[WaiterT]:
        """Launch by launch, in order."""
        for launch in self._ranks:
            yield from self.of(launch)

    def add(self, waiter: WaiterT, *, holds: bool) -> None:
        """To the end of its line; one that is there keeps its place. ``holds``: its attempt has another place."""
        rank = _rank(waiter, holds=holds)
        if self._place.get(waiter.key) != (waiter.launch, rank):
            self.remove(waiter.key)
        ranks = self._ranks.setdefault(waiter.launch, (OrderedDict(), OrderedDict(), OrderedDict()))
        ranks[rank][waiter.key] = waiter
        self._place[waiter.key] = (waiter.launch, rank)
        self._keys[waiter.workflow_id].add(waiter.key)

    def remove(self, key: PlaceKey) -> None:
        """Nothing happens to one that does not wait."""
        if key not in self._place:
            return
        launch, rank = self._place.pop(key)
        ranks = self._ranks[launch]
        del ranks[rank][key]
        if not any(ranks):
            del self._ranks[launch]
        self._keys[key[0]].discard(key)
        if not self._keys[key[0]]:
            del self._keys[key[0]]

    def now_holds(self, workflow_id: str, *, holds: bool) -> None:
        """The attempt got its first place, or lost its last one."""
        for key in self.of_attempt(workflow_id):
            launch, rank = self._place[key]
            self.add(self._ranks[launch][rank][key], holds=holds)

    def of_attempt(self, workflow_id: str) -> list[PlaceKey]:
        """What an attempt waits for."""
        return sorted(self._keys.get(workflow_id, ()))

    def counts(self) -> Mapping[str, int]:
        """By launch."""
        return {launch: sum(map(len, ranks)) for launch, ranks in self._ranks.items()}

    def heads(self) -> dict[str, WaiterT]:
        """Who is next, by launch."""
        return {launch: self.head(launch) for launch in self._ranks}

    def head(self, launch: str) -> WaiterT:
        """Who is next of a launch that has somebody waiting."""
        return next(next(iter(rank.values())) for rank in self._ranks[launch] if rank)

    def of(self, launch: str) -> Iterator[WaiterT]:
        """Those of one launch, in order."""
        for rank in self._ranks[launch]:
            yield from rank.values()

    def last_new(self, launch: str) -> WaiterT | None:
        """The last of those that have not begun."""
        rank = self._ranks[launch][_NEW]
        return next(reversed(rank.values()), None)


def _rank(waiter: Waiter, *, holds: bool) -> int:
    if holds:
        return _HOLDS
    return _BEGUN if waiter.begun else _NEW
