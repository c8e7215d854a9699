"""A session of the measurements of operation: big launches, kills, cancels, growth, leases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cancelling import CancelRun, measure_cancel
from command import Bench
from growth import Growth, measure_growth
from leases import LeaseRun, measure_leases
from many_requests import ManyRequests, measure_many_requests
from recovery import RecoveryRun, measure_recovery

MEASUREMENTS = ("requests", "recovery", "cancel", "growth", "lease")


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    concurrency: int = 32
    """Attempts at a time, where they do nothing."""
    rounds: int = 3
    """Of launch against request, of growth's long runs, and of runs with leases."""
    requests: int = 50
    tasks: int = 20
    """Of each of those requests."""
    kills: int = 5
    killed_attempts: int = 8
    heartbeat_timeout: float = 10.0
    cancels: int = 3
    cancelled_attempts: int = 32
    grace: float = 30.0
    few: int = 500
    marks: list[int] = field(default_factory=lambda: [200, 1000, 2500, 5000])
    """Attempts at which memory is looked at; the last is the size of a long run."""
    leased_attempts: int = 500


QUICK = Sizes(
    rounds=1,
    requests=5,
    tasks=4,
    kills=1,
    killed_attempts=3,
    heartbeat_timeout=5.0,
    cancels=1,
    cancelled_attempts=6,
    few=20,
    marks=[20, 40, 80],
    leased_attempts=40,
)
"""To try a change of the measurements themselves; the figures say little."""


@dataclass
class Operations:
    """Everything that was measured in one session; what was not is empty."""

    sizes: Sizes
    machine: dict[str, Any]
    launches: list[ManyRequests] = field(default_factory=list)
    recoveries: list[RecoveryRun] = field(default_factory=list)
    cancels: list[CancelRun] = field(default_factory=list)
    growth: Growth | None = None
    leases: list[LeaseRun] = field(default_factory=list)


async def measure_operations(
    bench: Bench, session: Operations, chosen: list[str], say: Callable[[str], None]
) -> None:
    """Fill ``session``; ``chosen`` are some of ``MEASUREMENTS``."""
    sizes = session.sizes
    if "requests" in chosen:
        for number in range(sizes.rounds):
            say(f"a launch of {sizes.requests} requests, {number + 1} of {sizes.rounds}")
            session.launches.append(
                await measure_many_requests(bench, sizes.requests, sizes.tasks, sizes.concurrency)
            )
    if "recovery" in chosen:
        for number in range(sizes.kills):
            say(f"kill -9 of a worker, {number + 1} of {sizes.kills}")
            session.recoveries.append(measure_recovery(bench, sizes.killed_attempts, sizes.heartbeat_timeout))
    if "cancel" in chosen:
        for number in range(sizes.cancels):
            say(f"cancel, {number + 1} of {sizes.cancels}")
            session.cancels.append(await measure_cancel(bench, sizes.cancelled_attempts, sizes.grace))
    if "growth" in chosen:
        say(f"{sizes.few} attempts against {sizes.marks[-1]}")
        session.growth = measure_growth(bench, sizes.few, sizes.marks, sizes.concurrency, sizes.rounds)
    if "lease" in chosen:
        for number in range(sizes.rounds):
            say(f"attempts with leases, {number + 1} of {sizes.rounds}")
            session.leases.append(await measure_leases(bench, sizes.leased_attempts, sizes.concurrency))
