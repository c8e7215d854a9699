"""How far this machine's clock is from the server's, as far as the polls of workers tell.

Temporal has no call that returns the server's time. It does tell when a worker polled last, and a worker
polls again within about a minute: the freshest poll can lie neither in the future nor far in the past.
"""

from __future__ import annotations

from collections.abc import Sequence

from temporalio.api.taskqueue.v1 import PollerInfo

from .finding import Finding, info, ok, warning

AREA = "temporal"
AHEAD_SECONDS = 5.0
POLL_SECONDS = 70.0
"""A long poll ends after 60 seconds at the latest, and begins again at once."""
FORGOTTEN_SECONDS = 300.0
"""The server forgets workers that have been silent for so long."""
_ADVICE = "set the clock by NTP here and on the server: deadlines and ages are told by these clocks"


def check_clock(pollers: Sequence[PollerInfo], now: float) -> Finding:
    """Judge by the age of the freshest poll; ``now`` is this machine's Unix time in seconds."""
    times = [poller.last_access_time.seconds + poller.last_access_time.nanos / 1e9 for poller in pollers]
    if not times:
        return info(AREA, "clock", "cannot be compared with the server's: no worker polls")
    age = now - max(times)
    if age < -AHEAD_SECONDS:
        return warning(AREA, "clock", f"at least {-age:.0f} s behind the server's", _ADVICE)
    if age > FORGOTTEN_SECONDS:
        return warning(
            AREA, "clock", f"at least {age - FORGOTTEN_SECONDS:.0f} s ahead of the server's", _ADVICE
        )
    if age > POLL_SECONDS:
        return info(
            AREA, "clock", f"the freshest poll is {age:.0f} s old: a silent worker, or a clock that is ahead"
        )
    return ok(AREA, "clock", f"agrees with the server's within {max(age, 1.0) + AHEAD_SECONDS:.0f} s")
