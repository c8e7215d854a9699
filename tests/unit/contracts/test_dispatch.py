"""Slots of a launch go to its requests in order and are never given twice."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentcompass.contracts.dispatch import Demand, Share, allocate, may_prepare_next


def share(
    *,
    pending: int = 0,
    taken: int = 0,
    slots: int = 0,
    allowed: int = 0,
    provider: str = "docker",
    ended: bool = False,
) -> Share:
    demand = Demand(prepared=True, pending=pending, taken=taken, slots=slots)
    return Share(provider=provider, demand=demand, allowed=allowed, ended=ended)


def test_the_first_request_gets_all_that_it_can_use() -> None:
    assert allocate(8, {}, [share(pending=20), share(pending=20)]) == [8, 0]


def test_what_the_first_cannot_use_goes_to_the_next() -> None:
    assert allocate(8, {}, [share(taken=3, slots=3, allowed=3), share(pending=20)]) == [3, 5]


def test_running_attempts_of_a_later_request_are_not_taken_away() -> None:
    later = share(taken=6, slots=6, allowed=6, pending=4)
    assert allocate(8, {}, [share(pending=20), later]) == [2, 6]


def test_a_lowered_allowance_counts_until_it_is_acknowledged() -> None:
    unaware = share(taken=1, slots=6, allowed=2, pending=4)
    assert allocate(8, {}, [share(pending=20), unaware])[0] == 2
    aware = share(taken=1, slots=2, allowed=2, pending=4)
    assert allocate(8, {}, [share(pending=20), aware])[0] == 6


def test_a_provider_limit_holds_over_all_requests_of_the_provider() -> None:
    shares = [share(pending=20), share(pending=20), share(pending=20, provider="modal")]
    assert allocate(10, {"docker": 4}, shares) == [4, 0, 6]


def test_an_ended_request_gets_nothing_and_holds_nothing() -> None:
    assert allocate(8, {}, [share(taken=5, slots=5, allowed=5, ended=True), share(pending=9)]) == [0, 8]


def test_an_unprepared_request_gets_nothing() -> None:
    assert allocate(8, {}, [Share(provider="docker"), share(pending=2)]) == [0, 2]


def test_the_next_request_is_prepared_when_less_is_pending_than_there_are_slots() -> None:
    assert not may_prepare_next(8, [share(pending=8, taken=8)])
    assert may_prepare_next(8, [share(pending=7, taken=8)])
    assert not may_prepare_next(8, [Share(provider="docker")])
    assert may_prepare_next(8, [share(pending=8, ended=True)])


@given(
    st.integers(1, 20),
    st.lists(st.tuples(*[st.integers(0, 10)] * 4, st.booleans()), min_size=1, max_size=6),
)
def test_no_more_slots_are_in_use_than_there_are(
    limit: int, rows: list[tuple[int, int, int, int, bool]]
) -> None:
    shares = [
        share(pending=pending, taken=min(taken, slots), slots=slots, allowed=allowed, ended=ended)
        for pending, taken, slots, allowed, ended in rows
    ]
    before = sum(item.committed for item in shares)
    granted = allocate(limit, {}, shares)
    after = sum(
        0 if item.ended else max(slots, item.demand.taken, item.demand.slots)
        for item, slots in zip(shares, granted, strict=True)
    )
    assert after <= max(limit, before)
