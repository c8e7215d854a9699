"""Medians, ratios and targets of a benchmark session, as a table and as JSON."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from typing import Any

from floor import FloorRun
from product import ProductRun

MIN_RATIO = 0.45
MAX_CPU_MS = 65.0
MAX_WORKER_MB = 250.0
MAX_FIRST_ATTEMPT_SECONDS = 3.0
MAX_HELP_SECONDS = 0.3
MAX_GROWTH = 1.5
"""Worker memory at many attempts, divided by that at few: 25 times the work, and peaks come and go."""


@dataclass
class Session:
    """Everything that was measured on one machine in one session."""

    attempts: int
    concurrency: int
    machine: dict[str, Any]
    floors: list[FloorRun] = field(default_factory=list)
    products: list[ProductRun] = field(default_factory=list)
    help_seconds: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    name: str
    value: float
    unit: str = ""
    target: str = ""
    met: bool | None = None


def lines_of(session: Session) -> list[Line]:
    """The figures of a session, medians over its rounds."""
    floors, products = session.floors, session.products
    floor_rate = statistics.median(item.attempts_per_second for item in floors)
    # Each product run is compared with the floor run beside it, so that a busy minute hits both.
    ratio = statistics.median(
        product.attempts_per_second / floor.attempts_per_second
        for product, floor in zip(products, floors, strict=True)
    )
    cpu = statistics.median(item.cli_cpu_ms + item.worker_cpu_ms for item in products)
    memory = max(item.worker_peak_mb for item in products)
    first = statistics.median(item.first_attempt_seconds for item in products)
    help_time = statistics.median(session.help_seconds)
    history = products[-1].history
    return [
        Line("floor: empty child workflows", floor_rate, "/s"),
        Line("product: no-op attempts", _median(products, "attempts_per_second"), "/s"),
        Line("product / floor", ratio, "", f">= {MIN_RATIO}", ratio >= MIN_RATIO),
        Line("CPU per attempt, worker and CLI", cpu, "ms", f"<= {MAX_CPU_MS:g}", cpu <= MAX_CPU_MS),
        Line("  worker", _median(products, "worker_cpu_ms"), "ms"),
        Line("  CLI", _median(products, "cli_cpu_ms"), "ms"),
        Line("  floor's worker", statistics.median(item.worker_cpu_ms for item in floors), "ms"),
        Line("CPU per attempt, server", _median(products, "server_cpu_ms"), "ms"),
        Line("  floor's server", statistics.median(item.server_cpu_ms for item in floors), "ms"),
        Line("peak memory, worker", memory, "MB", f"< {MAX_WORKER_MB:g}", memory < MAX_WORKER_MB),
        Line("peak memory, CLI", max(item.cli_peak_mb for item in products), "MB"),
        Line("peak memory, server", max(item.server_peak_mb for item in products), "MB"),
        Line("history of an attempt", history.attempt.events, "events"),
        Line("history of an attempt", history.attempt.bytes, "bytes"),
        Line("request's history per attempt", history.request_events, "events"),
        Line("request's history per attempt", history.request_bytes, "bytes"),
        Line("command to first attempt", first, "s", "<= 3", first <= MAX_FIRST_ATTEMPT_SECONDS),
        Line("whole command", _median(products, "command_seconds"), "s"),
        Line("agentcompass --help", help_time, "s", "<= 0.3", help_time <= MAX_HELP_SECONDS),
    ]


def _median(products: list[ProductRun], name: str) -> float:
    return statistics.median(getattr(item, name) for item in products)


def render(lines: list[Line]) -> str:
    """The table for people."""
    rows = [
        f"{line.name:34} {line.value:>11.2f} {line.unit:7} {line.target:9} "
        f"{'' if line.met is None else 'met' if line.met else 'MISSED'}".rstrip()
        for line in lines
    ]
    return "\n".join(rows)
