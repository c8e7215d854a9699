"""Places and turns of a provider: never more than there are, evenly between launches, each told once."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from pydantic import ValidationError

from agentcompass.contracts.pool import (
    AHEAD_SECONDS,
    REMEMBERED_SECONDS,
    Grant,
    LeaseRequest,
    Place,
    PlacesAsked,
    Pool,
    PoolChange,
    PoolSettings,
    PoolState,
)
from agentcompass.contracts.workflows import PoolInput


def pool(capacity: int = 0, rate: float = 0.0) -> Pool:
    return Pool(PoolState(settings=PoolSettings(capacity=capacity, open_per_second=rate)))


def want(name: str, launch: str = "l", **more: object) -> LeaseRequest:
    values = {"workflow_id": name, "launch": launch, "environment_id": f"env-{name}", **more}
    return LeaseRequest.model_validate(values)


def place(name: str) -> Place:
    return Place(workflow_id=name, environment_id=f"env-{name}")


def names(found: list[Grant] | list[Place]) -> list[str]:
    return [item.workflow_id for item in found]


def test_no_more_places_than_there_are_and_in_the_order_of_asking() -> None:
    subject = pool(capacity=2)
    for name in "abcd":
        subject.acquire(want(name))
    assert names(subject.take_grants(0)) == ["a", "b"]
    assert subject.take_grants(1) == [] and subject.full
    subject.release("a", "env-a")
    assert names(subject.take_grants(2)) == ["c"]


def test_launches_share_the_places_evenly_whoever_came_first() -> None:
    subject = pool(capacity=4)
    for number in range(10):
        subject.acquire(want(f"a{number}", "early"))
    assert len(subject.take_grants(0)) == 4
    for number in range(10):
        subject.acquire(want(f"b{number}", "late"))
    for number in range(2):
        subject.release(f"a{number}", f"env-a{number}")
        assert names(subject.take_grants(0)) == [f"b{number}"]
    assert subject.held_by() == Counter(early=2, late=2)
    subject.release("a2", "env-a2")
    assert names(subject.take_grants(0)) == ["a4"]


def test_a_single_place_goes_round() -> None:
    subject = pool(capacity=1)
    for number in range(3):
        for launch in ("x", "y", "z"):
            subject.acquire(want(f"{launch}{number}", launch))
    order = []
    for _ in range(9):
        [grant] = subject.take_grants(0)
        order.append(grant.workflow_id)
        subject.release(grant.workflow_id, grant.environment_id)
    assert order == ["x0", "y0", "z0", "x1", "y1", "z1", "x2", "y2", "z2"]


def test_an_attempt_that_has_begun_goes_before_those_of_its_launch_that_have_not() -> None:
    subject = pool(capacity=1)
    for request in (want("a"), want("b"), want("c", begun=True)):
        subject.acquire(request)
    assert names(subject.take_grants(0)) == ["c"]


def test_asking_again_changes_nothing_and_is_answered_again() -> None:
    subject = pool(capacity=1)
    subject.acquire(want("a"))
    [grant] = subject.take_grants(0)
    for _ in range(2):
        subject.acquire(want("b"))
        subject.acquire(want("a"))
        assert subject.take_grants(0) == []
        assert (subject.granted_to(place("a")), subject.granted_to(place("b"))) == (grant, None)
    assert subject.held_by() == Counter(l=1) and subject.waiting_of() == Counter(l=1)


def test_the_environment_of_a_steps_verifier_is_opened_at_once_and_its_closing_frees_no_other_place() -> None:
    subject = pool(capacity=1)
    subject.acquire(want("a", environment_id="main"))
    subject.take_grants(0)
    subject.acquire(want("b", begun=True))
    for step in (1, 2):
        verifier = f"main-s{step}-v"
        subject.acquire(want("a", environment_id=verifier, begun=True))
        assert [grant.environment_id for grant in subject.take_grants(0)] == [verifier]
        assert subject.held_by() == Counter(l=2)
        subject = Pool(PoolState.model_validate_json(subject.state(0).model_dump_json()))
        subject.release("a", verifier)
        assert subject.take_grants(0) == [] and subject.held_by() == Counter(l=1)
    subject.release("a", "main")
    assert names(subject.take_grants(0)) == ["b"]


def test_a_late_word_about_an_earlier_environment_takes_no_place_away() -> None:
    subject = pool(capacity=1)
    subject.acquire(want("a", environment_id="e1"))
    subject.take_grants(0)
    subject.release("a", "e1")
    subject.acquire(want("a", environment_id="e2"))
    subject.take_grants(0)
    subject.release("a", "e1")
    assert subject.held_by() == Counter(l=1)
    subject.release("a", "e2")
    assert not subject.held_by()
    assert subject.granted_to(Place(workflow_id="a", environment_id="e2")) is None


def test_an_attempt_that_is_gone_holds_none_of_its_environments_any_more() -> None:
    subject = pool(capacity=1)
    for environment in ("main", "main-s1-v"):
        subject.acquire(want("a", environment_id=environment))
        subject.take_grants(0)
    subject.acquire(want("b"))
    assert subject.answer(PlacesAsked(places=[], with_members=True)).members == ["a", "b"]
    subject.drop(["a"])
    assert names(subject.take_grants(0)) == ["b"] and subject.held_by() == Counter(l=1)


def test_who_gives_up_waiting_or_is_gone_gets_nothing() -> None:
    subject = pool(capacity=1)
    for name in "abcd":
        subject.acquire(want(name))
    subject.take_grants(0)
    subject.release("b", "env-b")
    subject.drop(["a", "c"])
    assert names(subject.take_grants(0)) == ["d"]


def test_turns_are_evenly_spaced_and_handed_out_a_little_ahead() -> None:
    subject = pool(rate=0.5)
    for number in range(20):
        subject.acquire(want(f"a{number}"))
    turns: list[float] = []
    now, wakes = 100.0, 0
    while True:
        turns += [grant.not_before for grant in subject.take_grants(now)]
        wake = subject.wake_at(now)
        if wake is None:
            break
        assert wake >= now and wakes < 20
        now, wakes = max(wake, now + 0.1), wakes + 1
    assert turns == [100 + 2 * number for number in range(20)]
    assert wakes <= 8


def test_a_launch_with_a_rate_of_its_own_slows_nobody_else_down() -> None:
    subject = pool()
    for number in range(3):
        subject.acquire(want(f"slow{number}", "slow", open_per_second=0.1))
        subject.acquire(want(f"fast{number}", "fast"))
    granted = {grant.workflow_id: grant.not_before for grant in subject.take_grants(100)}
    assert granted == {"slow0": 100, "slow1": 110, "fast0": 100, "fast1": 100, "fast2": 100}
    assert subject.wake_at(100) == 120 - AHEAD_SECONDS / 2
    # A pool that forgot the last turn would let the launch open at once.
    assert not subject.over(119)


def test_a_pool_without_limits_is_over_when_the_last_turn_has_passed() -> None:
    subject = pool()
    assert subject.over(0)
    subject.acquire(want("a", open_per_second=0.01))
    subject.take_grants(100)
    assert not subject.over(150) and subject.wake_at(150) == 200
    assert subject.over(200) and subject.wake_at(200) is None


def test_limits_change_one_by_one_and_a_smaller_capacity_ends_nothing() -> None:
    subject = pool(capacity=3)
    for name in "abcde":
        subject.acquire(want(name))
    subject.take_grants(0)
    subject.change(PoolChange(capacity=1))
    subject.change(PoolChange(open_per_second=2))
    assert subject.settings == PoolSettings(capacity=1, open_per_second=2)
    for name in "ab":
        subject.release(name, f"env-{name}")
        assert subject.take_grants(10) == []
    subject.release("c", "env-c")
    assert names(subject.take_grants(10)) == ["d"]
    subject.change(PoolChange(capacity=0, open_per_second=0))
    assert names(subject.take_grants(10)) == ["e"] and not subject.held_by()


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_lost_or_given_twice_over_many_runs_of_the_workflow(seed: int) -> None:
    """A simulation: attempts come, work, end and vanish; the state goes through continue-as-new."""
    chance = random.Random(seed)
    subject = pool(capacity=5, rate=3)
    running: dict[str, str] = {}
    served: Counter[str] = Counter()
    asked = 0
    now = 0.0
    while sum(served.values()) < 300:
        now += chance.random()
        if asked < 300 and chance.random() < 0.7:
            subject.acquire(want(f"w{asked}", f"launch{chance.randrange(4)}"))
            asked += 1
        for grant in subject.take_grants(now):
            assert grant.workflow_id not in running
            running[grant.workflow_id] = grant.environment_id
            served[grant.workflow_id] += 1
        assert len(running) <= 5
        for name in [name for name in running if chance.random() < 0.4]:
            if chance.random() < 0.2:
                subject.drop([name])
            else:
                subject.release(name, running[name])
            del running[name]
        if chance.random() < 0.1:
            subject = Pool(PoolState.model_validate_json(subject.state(now).model_dump_json()))
    assert set(served.values()) == {1}


def test_what_was_granted_is_known_in_the_next_run_and_forgotten_when_it_was_given_back() -> None:
    subject = pool(capacity=2)
    for name in "abc":
        subject.acquire(want(name))
    subject.take_grants(0)
    later = Pool(subject.state(REMEMBERED_SECONDS * 2))
    asked = PlacesAsked(places=[place("a"), place("c"), place("unknown")], with_members=True)
    answer = later.answer(asked)
    assert (names(answer.granted), names(answer.waiting), answer.members) == (["a"], ["c"], ["a", "b", "c"])
    later.release("a", "env-a")
    assert later.answer(asked).granted == []


def test_a_turn_without_a_place_is_forgotten_some_time_later() -> None:
    subject = pool(rate=1.0)
    subject.acquire(want("a"))
    subject.take_grants(0)
    assert Pool(subject.state(REMEMBERED_SECONDS / 2)).granted_to(place("a")) is not None
    assert Pool(subject.state(REMEMBERED_SECONDS * 2)).granted_to(place("a")) is None


def test_a_pool_of_an_earlier_version_keeps_what_it_knew_and_other_unknown_keys_are_refused() -> None:
    told = {"workflow_id": "a", "environment_id": "env-a", "not_before": 0.0}
    lease = {"workflow_id": "a", "launch": "l", "environment_id": "env-a"}
    earlier = {"settings": {"capacity": 3}, "leases": [lease], "outbox": [told], "grants": 7}
    state = PoolInput.model_validate_json(json.dumps({"provider": "docker", "state": earlier})).state
    assert (state.settings.capacity, state.grants) == (3, 7)
    subject = Pool(state)
    subject.acquire(want("a"))  # it was not told, and asks by itself
    assert names(subject.take_grants(0)) == ["a"] and subject.held_by() == Counter(l=1)
    subject.change(PoolChange(capacity=1))
    subject.release("a", "env-a")
    for request in (want("b"), want("a", environment_id="later")):
        subject.acquire(request)
    assert names(subject.take_grants(0)) == ["b"]  # "a" holds nothing that would let it go first
    with pytest.raises(ValidationError, match="inbox"):
        PoolState.model_validate({"inbox": []})
