"""The retry policy: what is tried again, after which wait, and when it ends."""

from __future__ import annotations

import pytest

from agentcompass.plugins.models.retry import (
    Fault,
    FaultKind,
    GaveUp,
    RetryPolicy,
    Surroundings,
    call_with_retries,
    is_transient_status,
    next_delay,
    retry_after_seconds,
)

POLICY = RetryPolicy(max_tries=5, min_delay_seconds=1.0, max_delay_seconds=60.0)
REFUSED = Fault(FaultKind.CONNECTION, "connection refused")


def status_fault(status: int, retry_after: float | None = None) -> Fault:
    return Fault(FaultKind.STATUS, "said so", status=status, retry_after_seconds=retry_after)


class FakeTime:
    """A clock that moves only when somebody sleeps, or when a try takes time."""

    def __init__(self, jitter: float = 1.0) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.surroundings = Surroundings(
            now=lambda: self.now, monotonic=lambda: self.now, sleep=self._sleep, jitter=lambda: jitter
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
def test_overload_and_server_errors_are_transient(status: int) -> None:
    assert is_transient_status(status)


@pytest.mark.parametrize("status", [301, 400, 401, 402, 403, 404, 409, 413, 422])
def test_refusals_are_not_transient(status: int) -> None:
    assert not is_transient_status(status)


def test_the_bound_of_the_wait_doubles_up_to_the_maximum() -> None:
    policy = RetryPolicy(max_tries=10, min_delay_seconds=2.0, max_delay_seconds=10.0)
    waits = [next_delay(policy, [REFUSED] * n, jitter=1.0, seconds_left=None) for n in range(1, 6)]
    assert waits == [2.0, 4.0, 8.0, 10.0, 10.0]


def test_jitter_covers_the_upper_half_of_the_wait() -> None:
    assert next_delay(POLICY, [REFUSED], jitter=0.0, seconds_left=None) == 0.5
    assert next_delay(POLICY, [REFUSED], jitter=0.5, seconds_left=None) == 0.75


def test_by_default_the_tries_are_spread_over_more_than_half_a_minute() -> None:
    policy, faults, waited = RetryPolicy(), [REFUSED], 0.0
    while (delay := next_delay(policy, faults, jitter=0.0, seconds_left=None)) is not None:
        waited += delay
        faults.append(REFUSED)
    assert waited > 30


def test_retry_after_is_a_lower_bound_of_the_wait() -> None:
    assert next_delay(POLICY, [status_fault(429, 7.0)], jitter=0.0, seconds_left=None) == 7.5
    assert next_delay(POLICY, [status_fault(429, 7.0)], jitter=1.0, seconds_left=None) == 8.0


def test_retry_after_beyond_the_maximum_waits_the_maximum() -> None:
    assert next_delay(POLICY, [status_fault(429, 3600.0)], jitter=0.5, seconds_left=None) == 60.0


def test_no_wait_leads_past_the_deadline() -> None:
    assert next_delay(POLICY, [status_fault(429, 7.0)], jitter=0.0, seconds_left=7.5) is None
    assert next_delay(POLICY, [status_fault(429, 7.0)], jitter=0.0, seconds_left=7.6) == 7.5


def test_the_last_try_is_not_followed_by_a_wait() -> None:
    assert next_delay(POLICY, [REFUSED] * 5, jitter=0.5, seconds_left=None) is None


@pytest.mark.parametrize("kind", [FaultKind.TIMEOUT, FaultKind.MALFORMED])
def test_a_try_that_may_have_been_paid_for_is_repeated_once(kind: FaultKind) -> None:
    fault = Fault(kind, "")
    assert next_delay(POLICY, [fault], jitter=0.0, seconds_left=None) == 0.5
    assert next_delay(POLICY, [fault, REFUSED, fault], jitter=0.0, seconds_left=None) is None


def test_a_fault_that_is_not_transient_ends_the_call() -> None:
    fault = Fault(FaultKind.STATUS, "", status=401, transient=False)
    assert next_delay(POLICY, [fault], jitter=0.0, seconds_left=None) is None


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"retry-after": "5"}, 5.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:02:00 GMT"}, 20.0),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:30 GMT"}, 0.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_as_seconds_or_date(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_seconds(headers, now=100.0) == expected


async def test_the_answer_says_how_many_tries_it_took() -> None:
    time = FakeTime()
    outcomes: list[str | Fault] = [status_fault(503), REFUSED, "fine"]

    async def try_once(seconds: float) -> str | Fault:
        return outcomes.pop(0)

    answered = await call_with_retries(try_once, POLICY, surroundings=time.surroundings)
    assert (answered.answer, answered.tries) == ("fine", 3)
    assert time.slept == [1.0, 2.0]


async def test_latency_counts_the_successful_try_only() -> None:
    time = FakeTime()
    outcomes: list[str | Fault] = [REFUSED, "fine"]

    async def try_once(seconds: float) -> str | Fault:
        time.now += 3.0
        return outcomes.pop(0)

    answered = await call_with_retries(try_once, POLICY, surroundings=time.surroundings)
    assert answered.latency_seconds == 3.0


async def test_giving_up_tells_every_fault_in_order() -> None:
    time = FakeTime()

    async def try_once(seconds: float) -> str | Fault:
        return status_fault(500 + round(seconds) % 2)

    with pytest.raises(GaveUp) as caught:
        await call_with_retries(try_once, POLICY, surroundings=time.surroundings)
    assert [fault.status for fault in caught.value.faults] == [500] * 5


async def test_a_try_gets_no_more_time_than_the_deadline_leaves() -> None:
    time = FakeTime()
    timeouts: list[float] = []

    async def try_once(seconds: float) -> str | Fault:
        timeouts.append(seconds)
        time.now += seconds
        return Fault(FaultKind.TIMEOUT, "")

    with pytest.raises(GaveUp):
        await call_with_retries(try_once, POLICY, deadline=1700.0, surroundings=time.surroundings)
    assert timeouts == [600.0, 99.0]


async def test_nothing_is_sent_after_the_deadline() -> None:
    time = FakeTime()

    async def try_once(seconds: float) -> str | Fault:
        raise AssertionError("must not be called")

    with pytest.raises(GaveUp, match="the deadline has passed"):
        await call_with_retries(try_once, POLICY, deadline=1000.0, surroundings=time.surroundings)


async def test_the_cause_stays_known_when_a_wait_overshoots_the_deadline() -> None:
    time = FakeTime()

    async def try_once(seconds: float) -> str | Fault:
        return status_fault(429)

    async def oversleep(seconds: float) -> None:
        time.now += 1000.0

    slow = Surroundings(now=lambda: time.now, monotonic=lambda: time.now, sleep=oversleep, jitter=lambda: 0.0)
    with pytest.raises(GaveUp) as caught:
        await call_with_retries(try_once, POLICY, deadline=1100.0, surroundings=slow)
    assert [fault.status for fault in caught.value.faults] == [429]


async def test_each_retry_is_announced_before_its_wait() -> None:
    time = FakeTime()
    outcomes: list[str | Fault] = [status_fault(503), "fine"]
    heard: list[tuple[int | None, int, float, int]] = []

    async def try_once(seconds: float) -> str | Fault:
        return outcomes.pop(0)

    await call_with_retries(
        try_once,
        POLICY,
        on_retry=lambda fault, tries, delay: heard.append((fault.status, tries, delay, len(time.slept))),
        surroundings=time.surroundings,
    )
    assert heard == [(503, 1, 1.0, 0)]


@pytest.mark.parametrize(
    ("fault", "throttled"),
    [
        (status_fault(429), True),
        (status_fault(529), True),
        (status_fault(503, retry_after=2.0), True),
        (status_fault(503), False),
        (status_fault(500, retry_after=2.0), False),
        (REFUSED, False),
    ],
)
async def test_only_waiting_for_room_moves_the_deadline(fault: Fault, throttled: bool) -> None:
    time, asked = FakeTime(jitter=0.5), list[float]()
    outcomes: list[str | Fault] = [fault, "fine"]

    async def try_once(seconds: float) -> str | Fault:
        return outcomes.pop(0)

    def uncharged(seconds: float) -> float:
        asked.append(seconds)
        return seconds

    answered = call_with_retries(
        try_once, POLICY, deadline=1000.1, uncharged=uncharged, surroundings=time.surroundings
    )
    if throttled:
        assert (await answered).answer == "fine"
        assert asked == time.slept
    else:
        with pytest.raises(GaveUp):
            await answered
        assert asked == []


async def test_a_wait_that_is_charged_after_all_does_not_pass_the_deadline() -> None:
    time = FakeTime()

    async def try_once(seconds: float) -> str | Fault:
        return status_fault(429, retry_after=30.0)

    with pytest.raises(GaveUp):
        await call_with_retries(
            try_once, POLICY, deadline=1020.0, uncharged=lambda _: 10.0, surroundings=time.surroundings
        )
    assert time.slept == []
