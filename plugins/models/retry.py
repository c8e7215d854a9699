"""The one retry policy of model calls: a pure decision, and the loop that follows it.

Tried again, with doubling waits of which the upper half is drawn (so that many tasks do not come back at
once): connection faults, HTTP 408, 429 (unless the quota is used up),
5xx and 529. ``Retry-After`` is a lower bound of the wait. A request that timed out and an answer
that cannot be read may have been paid for: these are tried once more, not up to the limit. No
wait leads past the deadline, which waiting for a rate limit moves. By default an endpoint that is away for
half a minute costs no call.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Generic, TypeVar

from .params import ModelParams

AnswerT = TypeVar("AnswerT")

MAX_COSTLY_TRIES = 2


class FaultKind(StrEnum):
    """How a try failed."""

    CONNECTION = "connection"
    TIMEOUT = "timeout"
    MALFORMED = "malformed"
    STATUS = "status"


_COSTLY = frozenset({FaultKind.TIMEOUT, FaultKind.MALFORMED})


@dataclass(frozen=True)
class Fault:
    """A failed try; ``detail`` is one line without secrets."""

    kind: FaultKind
    detail: str
    status: int | None = None
    code: str = ""
    """The endpoint's own error code or type."""
    retry_after_seconds: float | None = None
    transient: bool = True
    """False when the same request cannot do better."""

    @property
    def throttled(self) -> bool:
        """True when the endpoint has no room now: waiting for it is not the caller's time."""
        asked_to_wait = self.retry_after_seconds is not None
        return self.status in (429, 529) or (self.status == 503 and asked_to_wait)


@dataclass(frozen=True)
class RetryPolicy:
    """Bounds of one model call. Times are in seconds."""

    max_tries: int = 7
    min_delay_seconds: float = 1.0
    max_delay_seconds: float = 60.0
    request_timeout_seconds: float = 600.0


def policy_of(params: ModelParams) -> RetryPolicy:
    """The policy that the parameters of a model ask for."""
    return RetryPolicy(
        max_tries=params.max_attempts,
        min_delay_seconds=params.retry_min_delay_seconds,
        max_delay_seconds=params.retry_max_delay_seconds,
        request_timeout_seconds=params.request_timeout_seconds,
    )


@dataclass(frozen=True)
class Answered(Generic[AnswerT]):
    """A call that succeeded: its answer, and how often and how long it was tried."""

    answer: AnswerT
    tries: int
    latency_seconds: float


class GaveUp(Exception):
    """No try succeeded; ``faults`` has one entry per try, in order."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(faults[-1].detail)
        self.faults = tuple(faults)


def is_transient_status(status: int) -> bool:
    """True for HTTP statuses that the same request may outlive. 409 is not one of them."""
    return status in (408, 429) or 500 <= status <= 599


def next_delay(
    policy: RetryPolicy, faults: Sequence[Fault], *, jitter: float, seconds_left: float | None
) -> float | None:
    """Seconds to wait after ``faults`` (newest last), or ``None`` to give up.

    ``jitter`` is drawn from [0, 1); ``seconds_left`` is the time to the deadline.
    """
    fault = faults[-1]
    if not fault.transient or len(faults) >= policy.max_tries:
        return None
    if fault.kind in _COSTLY and sum(f.kind is fault.kind for f in faults) >= MAX_COSTLY_TRIES:
        return None
    bound = min(policy.max_delay_seconds, policy.min_delay_seconds * 2.0 ** (len(faults) - 1))
    backoff = bound * (1.0 + jitter) / 2
    delay = min(policy.max_delay_seconds, backoff + (fault.retry_after_seconds or 0.0))
    return None if seconds_left is not None and delay >= seconds_left else delay


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """The wait that the endpoint asks for; ``None`` when it does not, or not readably.

    ``headers`` has lower-case names or ignores case. ``Retry-After`` is a number of seconds or an
    HTTP date (RFC 9110, 10.2.3); ``retry-after-ms`` is OpenAI's finer one.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
    except ValueError:
        return None
    return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now)


@dataclass(frozen=True)
class Surroundings:
    """Clock, sleep and dice of :func:`call_with_retries`; replaced in tests only."""

    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random


async def call_with_retries(
    try_once: Callable[[float], Awaitable[AnswerT | Fault]],
    policy: RetryPolicy,
    *,
    deadline: float | None = None,
    uncharged: Callable[[float], float] = lambda seconds: 0.0,
    on_retry: Callable[[Fault, int, float], None] = lambda fault, tries, delay: None,
    surroundings: Surroundings | None = None,
) -> Answered[AnswerT]:
    """Call ``try_once(timeout_seconds)`` until it answers. Raises :class:`GaveUp`.

    ``deadline`` is a Unix time; ``uncharged`` is told how long a rate limit makes the call wait and returns by
    how much that moves the deadline; ``on_retry`` hears of each failed try that is followed by another.
    """
    around = surroundings or Surroundings()
    faults: list[Fault] = []
    while True:
        left = None if deadline is None else deadline - around.now()
        if left is not None and left <= 0:
            raise GaveUp(faults or [Fault(FaultKind.TIMEOUT, "the deadline has passed", transient=False)])
        timeout = (
            policy.request_timeout_seconds if left is None else min(policy.request_timeout_seconds, left)
        )
        began = around.monotonic()
        outcome = await try_once(timeout)
        if not isinstance(outcome, Fault):
            return Answered(outcome, len(faults) + 1, around.monotonic() - began)
        faults.append(outcome)
        jitter = around.jitter()
        if outcome.throttled and deadline is not None:
            wait = next_delay(policy, faults, jitter=jitter, seconds_left=None)
            deadline += uncharged(wait) if wait else 0.0
        left = None if deadline is None else deadline - around.now()
        delay = next_delay(policy, faults, jitter=jitter, seconds_left=left)
        if delay is None:
            raise GaveUp(faults)
        on_retry(outcome, len(faults), delay)
        await around.sleep(delay)
