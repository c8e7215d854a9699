"""Very many that wait for places of a pool: what it carries over stays small, and nobody is shut out."""

from __future__ import annotations

import random
from collections import Counter

from agentcompass.activities.data_converter import MAX_PAYLOAD_BYTES, data_converter
from agentcompass.activities.encryption.keys import KEY_VARIABLE
from agentcompass.contracts.pool import (
    MAX_STATE_BYTES,
    MAX_WAITING,
    LeaseRequest,
    PlacesAsked,
    Pool,
    PoolSettings,
    PoolState,
)
from agentcompass.contracts.workflows import PoolInput

TEMPORALS_LIMIT = 2 * 1024 * 1024


def pool(capacity: int) -> Pool:
    return Pool(PoolState(settings=PoolSettings(capacity=capacity)))


def want(launch: str, number: int, *, name: str = "", begun: bool = False) -> LeaseRequest:
    """With names as long as real ones."""
    task = name or f"organisation__a-repository-{random.Random(f'{launch}{number}').getrandbits(32):08x}"
    digest = f"{random.Random(number).getrandbits(48):012x}"
    return LeaseRequest(
        workflow_id=f"launch/{launch}/1-swebench_verified-terminal_agent/{task}/a{number}",
        environment_id=f"ac-{task[:24]}-{digest}-a{number}-e1",
        launch=launch,
        begun=begun,
    )


async def test_the_state_with_twenty_thousand_waiting_fits_into_a_payload_and_keeps_their_order() -> None:
    subject = pool(1000)
    granted = 0
    for number in range(10_500):
        for launch in ("swebench-terminal_agent-some-model-20261130-082738-a3a6", "another-one-20261130-b7"):
            subject.acquire(want(launch, number))
        granted += len(subject.take_grants(0))
    assert granted == 1000
    assert sum(subject.waiting_of().values()) == 20_000
    state = subject.state(0)
    converter = data_converter({KEY_VARIABLE: "ab" * 32})
    [payload] = await converter.encode([PoolInput(provider="docker", state=state)])
    assert payload.ByteSize() < MAX_PAYLOAD_BYTES < TEMPORALS_LIMIT
    [read] = await converter.decode([payload], [PoolInput])
    again = Pool(read.state)
    assert again.waiting_of() == subject.waiting_of() and again.held_by() == subject.held_by()
    for lease in state.leases[:20]:
        for each in (subject, again):
            each.release(lease.workflow_id, lease.environment_id)
    assert again.take_grants(1) == subject.take_grants(1) != []


def test_names_that_cannot_be_made_shorter_do_not_break_the_bound_and_every_launch_keeps_its_first() -> None:
    """Those that do not fit are told that they have to ask again."""
    subject, drawn = pool(1), random.Random(1)
    requests = [
        want(f"launch-{number % 4}", number, name=f"{drawn.getrandbits(2000):0500x}")
        for number in range(8_000)
    ]
    for request in requests:
        subject.acquire(request)
    subject.take_grants(0)
    state = subject.state(0)
    assert len(PoolInput(provider="p", state=state).model_dump_json()) < MAX_STATE_BYTES + 1000
    again = Pool(PoolState.model_validate_json(state.model_dump_json()))
    shares = again.waiting_of()
    assert len(shares) == 4 and min(shares.values()) == max(shares.values()) > 100
    answer = again.answer(PlacesAsked(places=[requests[4], requests[-1]]))
    assert [place.key for place in answer.waiting] == [requests[4].key]


def test_where_too_many_wait_a_late_launch_gets_as_many_places_in_the_line_and_no_more() -> None:
    subject = pool(1)
    for number in range(MAX_WAITING + 500):
        subject.acquire(want("early", number))
    first = want("early", 0)
    assert subject.take_grants(0)[0].key == first.key
    for number in range(MAX_WAITING):
        subject.acquire(want("late", number))
    waiting = subject.waiting_of()
    assert sum(waiting.values()) == MAX_WAITING and abs(waiting["early"] - waiting["late"]) <= 2
    served: Counter[str] = Counter()
    subject.release(*first.key)
    for _ in range(100):
        [grant] = subject.take_grants(0)
        served[grant.workflow_id.split("/")[1]] += 1
        subject.release(*grant.key)
    assert served == {"early": 50, "late": 50}


def test_who_holds_a_place_is_let_into_the_fullest_line() -> None:
    """Else it would wait for others that wait for its place."""
    subject = pool(1)
    for number in range(MAX_WAITING + 1):
        subject.acquire(want("l", number))
        subject.take_grants(0)
    verifier = want("l", 0).model_copy(update={"environment_id": "verifier", "begun": True})
    subject.acquire(verifier)
    assert [grant.environment_id for grant in subject.take_grants(0)] == ["verifier"]


def test_members_are_named_some_at_a_time_and_all_of_them_in_turn() -> None:
    subject = pool(1200)
    wanted = [want("l", number) for number in range(3000)]
    for request in wanted:
        subject.acquire(request)
    subject.take_grants(0)
    answers = [
        subject.answer(PlacesAsked(places=[], with_members=True, look=look)).members for look in range(4)
    ]
    assert max(map(len, answers)) <= 1000
    assert {name for answer in answers for name in answer} == {request.workflow_id for request in wanted}
