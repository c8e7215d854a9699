"""The figures of operation as lines of the table: medians, ratios, targets."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from cancelling import CancelRun
from growth import Growth, SizedRun
from leases import LeaseRun
from many_requests import ManyRequests
from operations import Operations
from recovery import RecoveryRun
from report import MAX_GROWTH, MAX_WORKER_MB, Line

RECOVERY_SECONDS = 2.0
"""Beyond the heartbeat timeout."""
MIN_LONG_RATIO = 0.85
"""Throughput of a long run, divided by that of short ones."""
MIN_LEASE_RATIO = 0.85
MAX_LEASE_EVENTS = 10.0


def operation_lines(session: Operations) -> list[Line]:
    """The figures of what was measured."""
    lines: list[Line] = []
    if session.launches:
        lines += _launches(session.launches)
    if session.recoveries:
        lines += _recoveries(session.recoveries)
    if session.cancels:
        lines += _cancels(session.cancels)
    if session.growth is not None:
        lines += _growth(session.growth)
    if session.leases:
        lines += _leases(session.leases)
    return lines


def _launches(runs: list[ManyRequests]) -> list[Line]:
    last = runs[-1]
    name = f"{last.requests} requests of {last.tasks} tasks"
    spans = (run.many.attempts_seconds / run.one.attempts_seconds for run in runs)
    return [
        Line(name, _median(run.many.seconds for run in runs), "s"),
        Line(f"one request of {last.requests * last.tasks:,}", _median(run.one.seconds for run in runs), "s"),
        Line("  wall time, ratio", _median(run.ratio for run in runs), "x"),
        Line("  first to last attempt, ratio", _median(spans), "x"),
        Line("history of the launch", last.launch_history.events, "events"),
        Line("history of the launch", last.launch_history.bytes, "bytes"),
        Line("  a request of it, at most", last.largest_request.events, "events"),
        Line("  a request of it, at most", last.largest_request.bytes, "bytes"),
    ]


def _recoveries(runs: list[RecoveryRun]) -> list[Line]:
    timeout = runs[-1].heartbeat_timeout
    most = timeout + RECOVERY_SECONDS
    last = _median(run.last_seconds for run in runs)
    return [
        Line("kill -9: heartbeat timeout T", timeout, "s"),
        Line("  next worker process", _median(run.worker_seconds for run in runs), "s"),
        Line("  first attempt goes on", _median(run.first_seconds for run in runs), "s"),
        Line(f"  last of {runs[-1].attempts} goes on", last, "s", f"<= {most:g}", last <= most),
        Line("  slowest of all kills", max(run.last_seconds for run in runs), "s"),
    ]


def _cancels(runs: list[CancelRun]) -> list[Line]:
    grace = runs[-1].grace_seconds
    left = sum(run.left.sandboxes + run.left.own_processes for run in runs)
    clean = _seconds(run.clean_seconds for run in runs)
    return [
        Line(
            f"cancel of {runs[-1].attempts} attempts: over", _seconds(run.over_seconds for run in runs), "s"
        ),
        Line("  and nothing of a sandbox left", clean, "s", f"<= {grace:g}", clean <= grace),
        Line("  and its worker gone", _seconds(run.quiet_seconds for run in runs), "s"),
        Line("  processes and folders left", left, "", "0", left == 0),
    ]


def _growth(growth: Growth) -> list[Line]:
    ratio = _median(growth.ratios)
    last = growth.many[-1]
    lines = [
        _rate(growth.few),
        _rate(growth.many),
        Line("  ratio", ratio, "x", f">= {MIN_LONG_RATIO:g}", ratio >= MIN_LONG_RATIO),
        Line("  last tenth / first tenth", _median(_drift(run) for run in growth.many), "x"),
    ]
    sizes = [sample.attempts for sample in last.memory]
    memory = [_median(_at(run, size) for run in growth.many) for size in sizes]
    for size, megabytes in zip(sizes, memory, strict=True):
        lines.append(Line(f"worker memory at {size:,}", megabytes, "MB"))
    if len(memory) > 1:
        most, times = max(memory), memory[-1] / memory[0]
        lines.append(Line("  most", most, "MB", f"< {MAX_WORKER_MB:g}", most < MAX_WORKER_MB))
        lines.append(Line("  last / first", times, "x", f"<= {MAX_GROWTH:g}", times <= MAX_GROWTH))
    return lines


def _rate(runs: list[SizedRun]) -> Line:
    return Line(f"{runs[-1].attempts:,} attempts", _median(run.attempts_per_second for run in runs), "/s")


def _drift(run: SizedRun) -> float:
    return run.parts_per_second[-1] / run.parts_per_second[0]


def _at(run: SizedRun, attempts: int) -> float:
    found = [sample.resident_mb for sample in run.memory if sample.attempts == attempts]
    return found[0] if found else float("nan")


def _leases(runs: list[LeaseRun]) -> list[Line]:
    ratio = _median(run.ratio for run in runs)
    events = _median(run.events for run in runs)
    waited = _median(run.waited_events for run in runs)
    return [
        Line("quick attempts, in one piece", _median(run.plain.per_second for run in runs), "/s"),
        Line("the same, phase by phase", _median(run.without_per_second for run in runs), "/s"),
        Line("  and with a lease each", _median(run.leased.per_second for run in runs), "/s"),
        Line("  ratio", ratio, "x", f">= {MIN_LEASE_RATIO:g}", ratio >= MIN_LEASE_RATIO),
        Line("history of a lease", events, "events", f"<= {MAX_LEASE_EVENTS:g}", events <= MAX_LEASE_EVENTS),
        Line("  in its attempt", _median(run.attempt_events for run in runs), "events"),
        Line("  in the pool", _median(run.pool_events for run in runs), "events"),
        Line("the same with half the places", _median(run.waited.per_second for run in runs), "/s"),
        Line(
            "  history of a lease", waited, "events", f"<= {MAX_LEASE_EVENTS:g}", waited <= MAX_LEASE_EVENTS
        ),
    ]


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def _seconds(values: Iterable[float | None]) -> float:
    """What never happened took for ever."""
    return _median(float("inf") if value is None else value for value in values)
