"""Measures what it costs that each attempt takes a lease of its provider's pool."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from command import Bench, attempt_times, history_size, no_op, run_json
from temporalio.client import Client

from agentcompass.contracts.workflows import POOL_WORKFLOW, attempt_workflow_id, launch_workflow_id

_PROVIDER = "host_process"
_POOLS = f'WorkflowType = "{POOL_WORKFLOW}"'
_NEVER_WAITS = "1000000"
"""A rate at which every environment may be opened at once."""


@dataclass(frozen=True)
class Measured:
    """One run of do-nothing attempts."""

    per_second: float
    attempt_events: int
    """In the history of an attempt, the median."""


@dataclass(frozen=True)
class LeaseRun:
    """A run with a pool between two without one."""

    attempts: int
    capacity: int
    before: Measured
    """Without a pool. A rate that never makes anybody wait is set: attempts that may have to wait for their turn
    go through the same phases as those that may have to wait for a place, one by one."""
    leased: Measured
    waited: Measured
    """With half as many places as attempts at a time, so that most of them have to wait."""
    after: Measured
    """As ``before``."""
    plain: Measured
    """Without a rate: a quick attempt is then carried out in one piece."""
    pool_events: float
    """In the histories of the pool, per attempt."""
    waited_pool_events: float
    """The same where most attempts had to wait."""

    @property
    def without_per_second(self) -> float:
        """Attempts per second without leases."""
        return statistics.mean((self.before.per_second, self.after.per_second))

    @property
    def ratio(self) -> float:
        """Throughput with leases, divided by that without."""
        return self.leased.per_second / self.without_per_second

    @property
    def waited_events(self) -> float:
        """History events of a lease that most had to wait for, wherever they are."""
        return self.waited.attempt_events - self.before.attempt_events + self.waited_pool_events

    @property
    def attempt_events(self) -> float:
        """History events of a lease in its attempt."""
        return self.leased.attempt_events - self.before.attempt_events

    @property
    def events(self) -> float:
        """History events of a lease, wherever they are."""
        return self.attempt_events + self.pool_events


async def measure_leases(bench: Bench, attempts: int, concurrency: int) -> LeaseRun:
    """Without a pool, with one that has a place for each attempt at a time or for half of them, and without one."""
    client = await bench.client()
    rate = ["--env-open-qps", f"{_PROVIDER}={_NEVER_WAITS}"]
    before = await _run(bench, client, attempts, concurrency, rate)
    pool_before = await _pool_events(client)
    run_json(bench, "pool", "set", _PROVIDER, "--capacity", str(concurrency), "--json")
    try:
        leased = await _run(bench, client, attempts, concurrency)
        pool_events = await _pool_events(client) - pool_before
        run_json(bench, "pool", "set", _PROVIDER, "--capacity", str(max(1, concurrency // 2)), "--json")
        before_waiting = await _pool_events(client)
        waited = await _run(bench, client, attempts, concurrency)
        waited_events = await _pool_events(client) - before_waiting
    finally:
        run_json(bench, "pool", "set", _PROVIDER, "--capacity", "0", "--json")
    if pool_events < attempts:
        raise RuntimeError(f"{pool_events} events of the pool for {attempts} attempts: it was not used")
    plain = await _run(bench, client, attempts, concurrency)
    after = await _run(bench, client, attempts, concurrency, rate)
    return LeaseRun(
        attempts=attempts,
        capacity=concurrency,
        before=before,
        leased=leased,
        waited=waited,
        after=after,
        plain=plain,
        pool_events=pool_events / attempts,
        waited_pool_events=waited_events / attempts,
    )


async def _run(
    bench: Bench, client: Client, attempts: int, concurrency: int, options: Sequence[str] = ()
) -> Measured:
    result, _ = run_json(bench, *no_op(bench, attempts, concurrency), *options)
    request = result["requests"][0]
    started, ended = attempt_times(Path(request["run_dir"]))
    if len(ended) != attempts:
        raise RuntimeError(f"{len(ended)} of {attempts} attempts finished")
    request_id = f"{launch_workflow_id(result['launch_id'])}/{request['key']}"
    # The median: a workflow task more or less is a matter of what came in together.
    sizes = [
        (await history_size(client, attempt_workflow_id(request_id, f"q{number:05d}", 1))).events
        for number in range(min(attempts, 50))
    ]
    return Measured(attempts / (max(ended) - min(started)), int(statistics.median(sizes)))


async def _pool_events(client: Client) -> int:
    """Of all runs of all pools: a pool continues as new."""
    total = 0
    async for item in client.list_workflows(_POOLS):
        total += (await history_size(client, item.id, item.run_id)).events
    return total
