"""Slots of a launch go to its requests in order and are never given twice."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

import pytest

from agentcompass.contracts.dispatch import (
    Allowance,
    Demand,
    Holding,
    Share,
    allocate,
    allowances,
    is_news,
    may_finish,
    may_prepare_next,
)


def share(
    *,
    pending: int = 0,
    taken: int = 0,
    slots: int = 0,
    sent: int | None = None,
    heard: bool = True,
    provider: str = "docker",
    ended: bool = False,
) -> Share:
    """A prepared request; ``heard``: it knows of the allowance that was sent last."""
    found = Share(provider=provider, ended=ended)
    found.send(Allowance(number=1, slots=slots if sent is None else sent))
    demand = Demand(number=1 if heard else 0, pending=pending, taken=taken, slots=slots)
    found.hear(demand)
    return found


def test_the_first_request_gets_all_that_it_can_use() -> None:
    assert allocate(8, {}, [share(pending=20), share(pending=20)]) == [8, 0]


def test_what_the_first_cannot_use_goes_to_the_next() -> None:
    assert allocate(8, {}, [share(taken=3, slots=3), share(pending=20)]) == [3, 5]


def test_a_later_request_keeps_what_runs_and_gets_no_more_while_an_earlier_one_wants_slots() -> None:
    later = share(taken=6, slots=6, pending=4)
    assert allocate(8, {}, [share(pending=20), later]) == [2, 0]


def test_a_lowered_allowance_counts_until_it_is_acknowledged() -> None:
    unaware = share(taken=1, slots=6, sent=2, heard=False)
    assert allocate(8, {}, [share(pending=20), unaware])[0] == 2
    aware = share(taken=1, slots=2, sent=2)
    assert allocate(8, {}, [share(pending=20), aware])[0] == 6


def test_with_a_raised_limit_an_earlier_request_that_may_have_more_to_start_comes_first() -> None:
    first, second = Share(provider="docker"), Share(provider="docker")
    request = Holding(Allowance(number=1, slots=1, limit=1), 1)
    told = request.tell(pending=5, taken=1)
    assert told == Demand(number=1, pending=1, taken=1, slots=1, limit=1)
    first.send(Allowance(number=1, slots=1, limit=1))
    first.hear(told)
    second.hear(Demand(pending=5, limit=4))
    assert allowances(4, {}, [first, second]) == [0, 1]
    assert (first.sent.slots, second.sent.slots) == (4, 0)
    assert not may_prepare_next(4, [first])

    request.hear(first.sent)
    answer = request.tell(pending=2, taken=1)
    assert answer == Demand(number=2, pending=2, taken=1, slots=3, limit=4)
    first.hear(answer)
    assert allocate(4, {}, [first, second]) == [3, 1]


def test_a_request_of_an_older_version_tells_no_limit_and_is_taken_at_its_word() -> None:
    assert allocate(4, {}, [share(pending=1, taken=1, slots=1), share(pending=5)]) == [2, 2]


def test_slots_that_were_given_back_are_free_at_once() -> None:
    gave_back = share(taken=1, slots=1, sent=6)
    assert allocate(8, {}, [gave_back, share(pending=20)]) == [1, 7]


def test_slots_that_were_given_back_before_more_were_sent_are_not_free() -> None:
    crossed = share(taken=1, slots=1, sent=6, heard=False)
    assert allocate(8, {}, [crossed, share(pending=20)]) == [1, 2]


def test_a_provider_limit_holds_over_all_requests_of_the_provider() -> None:
    shares = [share(pending=20), share(pending=20), share(pending=20, provider="modal")]
    assert allocate(10, {"docker": 4}, shares) == [4, 0, 6]


def test_an_ended_request_gets_nothing_and_holds_nothing() -> None:
    assert allocate(8, {}, [share(taken=5, slots=5, ended=True), share(pending=9)]) == [0, 8]


def test_an_unprepared_request_gets_nothing() -> None:
    assert allocate(8, {}, [Share(provider="docker"), share(pending=2)]) == [0, 2]


def test_the_next_request_is_prepared_when_less_is_pending_than_there_are_slots() -> None:
    assert not may_prepare_next(8, [share(pending=8, taken=8)])
    assert may_prepare_next(8, [share(pending=7, taken=8)])
    assert not may_prepare_next(8, [share(pending=4), share(pending=4)])
    assert not may_prepare_next(8, [Share(provider="docker")])
    assert may_prepare_next(8, [share(pending=8, ended=True)])


def test_a_request_is_summarized_when_no_earlier_one_has_anything_left_to_start() -> None:
    assert may_finish([share(pending=1, taken=2), share()]) == [True, False]
    assert may_finish([share(taken=2), share(), Share(provider="docker"), share()]) == [
        True,
        True,
        True,
        False,
    ]


def told(**numbers: int) -> Demand:
    return Demand(number=1, **numbers)


HEARD = Allowance(number=1, slots=8, limit=8)


@pytest.mark.parametrize(
    ("last", "now", "news"),
    [
        (None, told(pending=3), True),
        (told(pending=8, taken=8, slots=8), told(pending=8, taken=7, slots=8), False),
        (told(pending=8, taken=8, slots=8), told(pending=7, taken=8, slots=8), True),
        (told(pending=7, taken=8, slots=8), told(pending=6, taken=8, slots=8), False),
        (told(pending=7, taken=8, slots=8), told(pending=0, taken=8, slots=8), True),
        (told(taken=8, slots=8), told(taken=7, slots=7), True),
        (told(taken=3, slots=3), told(taken=2, pending=2, slots=3), True),
        (told(taken=3, pending=2, slots=3), told(taken=3, pending=3, slots=3), False),
        (told(taken=6, pending=8, slots=2), told(taken=5, pending=8, slots=2), True),
    ],
    ids=[
        "prepared",
        "a slot changes hands",
        "fewer are left than there are slots",
        "one fewer",
        "none is left to start",
        "a slot is given back",
        "more is wanted",
        "still more is wanted",
        "a lowered allowance takes effect",
    ],
)
def test_what_a_request_tells_its_launch(last: Demand | None, now: Demand, news: bool) -> None:
    assert is_news(last, now, HEARD) is news


@dataclass
class Played:
    """A request in a game with slow messages."""

    left: int
    running: int = 0
    paused: bool = False
    holding: Holding = field(default_factory=lambda: Holding(Allowance(), 0))
    to_launch: deque[Demand] = field(default_factory=deque)
    to_request: list[Allowance] = field(default_factory=list)
    pauses: deque[bool] = field(default_factory=deque)

    def tell(self) -> None:
        demand = self.holding.tell(0 if self.paused else self.left, self.running)
        if demand is not None:
            self.to_launch.append(demand)

    @property
    def may_start(self) -> bool:
        return self.left > 0 and not self.paused and self.running < self.holding.slots

    def start(self) -> None:
        while self.may_start:
            self.left, self.running = self.left - 1, self.running + 1
        self.tell()


@pytest.mark.parametrize("seed", range(80))
def test_slow_messages_neither_overfill_the_launch_nor_stop_it(seed: int) -> None:
    """Allowances may overtake each other, and come before a request has used the one before; some requests stand still."""
    chance = random.Random(seed)
    limit = chance.choice([1, 2, 5, 40, 100])
    players = [Played(chance.randint(0, 3 * limit)) for _ in range(chance.randint(1, 5))]
    shares = [Share(provider="p") for _ in players]
    for player in players:
        player.holding = Holding(Allowance(limit=limit), 0)
        player.tell()
    holds, raises = chance.choice([0, 6]), chance.choice([0, 3])

    def allot() -> None:
        for changed in allowances(limit, {}, shares):
            players[changed].to_request.append(shares[changed].sent)

    for _ in range(200_000):
        moves = [("hear", place) for place, player in enumerate(players) if player.to_launch]
        moves += [("allow", place) for place, player in enumerate(players) if player.to_request]
        moves += [("pause", place) for place, player in enumerate(players) if player.pauses]
        moves += [("start", place) for place, player in enumerate(players) if player.may_start]
        moves += [("end", place) for place, player in enumerate(players) if player.running]
        moves += [("hold", place) for place, share in enumerate(shares) if share.held or holds]
        if not moves:
            break
        moves += [("raise", 0)] if raises else []
        move, place = chance.choice(moves)
        player = players[place]
        if move == "hear":
            assert shares[place].hear(player.to_launch.popleft())
            allot()
        elif move == "allow":
            player.holding.hear(player.to_request.pop(chance.randrange(len(player.to_request))))
            player.tell()
        elif move == "raise":
            limit, raises = limit + chance.randint(1, 5), raises - 1
            allot()
        elif move == "hold":
            shares[place].held = not shares[place].held
            holds -= shares[place].held
            player.pauses.append(shares[place].held)
            allot()
        elif move == "pause":
            player.paused = player.pauses.popleft()
            player.tell()
        elif move == "start":
            player.start()
        else:
            player.running -= 1
            if chance.random() < 0.1:
                player.left += 1  # it is tried again
            player.tell()
        assert sum(player.running for player in players) <= limit
    assert [player.left for player in players] == [0] * len(players)
    assert all(may_finish(shares))


def test_a_request_that_is_held_keeps_what_runs_and_gets_no_more() -> None:
    held = share(pending=20, taken=3, slots=3)
    held.held = True
    shares = [held, share(pending=20)]
    assert allocate(8, {}, shares) == [3, 5]
    assert may_prepare_next(8, shares[:1])


@pytest.mark.parametrize("order", [[6, 7], [7, 6]])
def test_slots_that_were_taken_back_before_they_were_used_are_acknowledged(order: list[int]) -> None:
    """The launch counts them as in use until then, and nobody else would ever get them."""
    sent = {6: Allowance(number=6, slots=1), 7: Allowance(number=7, slots=0)}
    request = Holding(Allowance(number=5), 0, Demand(number=5, pending=1))
    for number in order:
        request.hear(sent[number])
        told = request.tell(pending=1, taken=0)
    assert told == Demand(number=7, pending=1, limit=1)
    assert request.tell(pending=1, taken=0) is None


def test_a_history_without_such_acknowledgements_gets_none() -> None:
    request = Holding(Allowance(number=7), 0, Demand(number=5, pending=1), promised=1)
    assert request.tell(pending=1, taken=0, answers=lambda: False) is None
