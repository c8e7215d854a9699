"""Benchmark of the whole product against what Temporal alone can do. See README.md beside this file."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from command import Bench
from floor import measure_floor
from operations import MEASUREMENTS, QUICK, Operations, Sizes, measure_operations
from operations_report import operation_lines
from processes import kill_started_with
from product import help_seconds, measure_product
from report import Line, Session, lines_of, render
from sandboxes import SANDBOX_VARIABLE

from agentcompass.cli.embedded_server import EmbeddedServer

HELP_RUNS = 7


def main() -> None:
    """Measure, print the table, write the JSON file."""
    options = _options()
    work = Path(tempfile.mkdtemp(prefix="agentcompass-perf-")).resolve()
    try:
        lines, sessions = asyncio.run(_measure(options, work))
        print(render(lines))
        found = {"lines": [asdict(line) for line in lines], **sessions}
        options.output.write_text(json.dumps(found, indent=2) + "\n")
        print(f"\nall runs: {options.output}")
    finally:
        if options.keep:
            print(f"kept: {work}", file=sys.stderr)
        else:
            shutil.rmtree(work, ignore_errors=True)
    sys.stdout.flush()
    os._exit(0)  # the SDK's threads may abort an interpreter that shuts down


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers, to try a change")
    parser.add_argument("--operations", action="store_true", help="launches, kills, cancels, growth, leases")
    parser.add_argument("--only", nargs="+", choices=MEASUREMENTS, help="some of --operations")
    parser.add_argument("--full", action="store_true", help="attempts and operations")
    parser.add_argument("--attempts", type=int, default=None, help="attempts of a run (1000; quick: 200)")
    parser.add_argument("--rounds", type=int, default=None, help="pairs of floor and product (3; quick: 1)")
    parser.add_argument("--concurrency", type=int, default=32, help="attempts at a time")
    parser.add_argument("--output", type=Path, default=Path("perf-results.json"), help="JSON file")
    parser.add_argument("--keep", action="store_true", help="leave home folder and results for a look")
    options = parser.parse_args()
    options.attempts = options.attempts or (200 if options.quick else 1000)
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.operations = options.operations or options.full or bool(options.only)
    return options


async def _measure(options: argparse.Namespace, work: Path) -> tuple[list[Line], dict[str, Any]]:
    """The table, and everything that was measured."""
    home = work / "home"
    server = EmbeddedServer(home)
    bench = Bench(await server.ensure(), home, work)
    lines: list[Line] = []
    sessions: dict[str, Any] = {}
    try:
        _say("warming up")
        await measure_product(bench, options.concurrency, options.concurrency)
        if not options.operations or options.full:
            attempts = await _attempts(options, bench)
            lines += lines_of(attempts)
            sessions["session"] = asdict(attempts)
        if options.operations:
            operations = Operations(QUICK if options.quick else Sizes(), _machine())
            await measure_operations(bench, operations, options.only or list(MEASUREMENTS), _say)
            operations.machine["load_after"] = os.getloadavg()
            lines += operation_lines(operations)
            sessions["operations"] = asdict(operations)
    finally:
        # After an error a launch may be running. What follows it would start the server again.
        kill_started_with("AGENTCOMPASS_HOME", str(home))
        kill_started_with(SANDBOX_VARIABLE, str(home))
        await server.stop()
    return lines, sessions


async def _attempts(options: argparse.Namespace, bench: Bench) -> Session:
    session = Session(options.attempts, options.concurrency, _machine())
    for number in range(options.rounds):
        _say(f"round {number + 1} of {options.rounds}: floor")
        session.floors.append(
            await measure_floor(bench.server, options.attempts, options.concurrency, bench.work / "floor.log")
        )
        _say(f"round {number + 1} of {options.rounds}: product")
        session.products.append(await measure_product(bench, options.attempts, options.concurrency))
    session.help_seconds = [help_seconds(bench.home) for _ in range(HELP_RUNS)]
    session.machine["load_after"] = os.getloadavg()
    return session


def _machine() -> dict[str, Any]:
    return {
        "cpus": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_before": os.getloadavg(),
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
