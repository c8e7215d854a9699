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
from pathlib import Path

from floor import measure_floor
from product import help_seconds, measure_product
from report import Session, as_json, lines_of, render

from agentcompass.cli.embedded_server import EmbeddedServer

HELP_RUNS = 7


def main() -> None:
    """Measure, print the table, write the JSON file."""
    options = _options()
    work = Path(tempfile.mkdtemp(prefix="agentcompass-perf-"))
    try:
        session = asyncio.run(_measure(options, work))
        lines = lines_of(session)
        print(render(lines))
        options.output.write_text(json.dumps(as_json(session, lines), indent=2) + "\n")
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
    parser.add_argument("--quick", action="store_true", help="one round of 200 attempts, to try a change")
    parser.add_argument("--full", action="store_true", help="also 200 and 5,000 attempts, for memory growth")
    parser.add_argument("--attempts", type=int, default=None, help="attempts of a run (1000; quick: 200)")
    parser.add_argument("--rounds", type=int, default=None, help="pairs of floor and product (3; quick: 1)")
    parser.add_argument("--concurrency", type=int, default=32, help="attempts at a time")
    parser.add_argument("--output", type=Path, default=Path("perf-results.json"), help="JSON file")
    parser.add_argument("--keep", action="store_true", help="leave home folder and results for a look")
    options = parser.parse_args()
    options.attempts = options.attempts or (200 if options.quick else 1000)
    options.rounds = options.rounds or (1 if options.quick else 3)
    return options


async def _measure(options: argparse.Namespace, work: Path) -> Session:
    home = work / "home"
    server = EmbeddedServer(home)
    session = Session(options.attempts, options.concurrency, _machine())
    info = await server.ensure()
    try:
        _say("warming up")
        await measure_product(info, home, options.concurrency, options.concurrency, work)
        for number in range(options.rounds):
            _say(f"round {number + 1} of {options.rounds}: floor")
            session.floors.append(
                await measure_floor(info, options.attempts, options.concurrency, work / "floor.log")
            )
            _say(f"round {number + 1} of {options.rounds}: product")
            session.products.append(
                await measure_product(info, home, options.attempts, options.concurrency, work)
            )
        session.help_seconds = [help_seconds(home) for _ in range(HELP_RUNS)]
        if options.full:
            _say("200 attempts, then 5,000")
            session.few = await measure_product(info, home, 200, options.concurrency, work)
            session.many = await measure_product(info, home, 5000, options.concurrency, work)
    finally:
        await server.stop()
    session.machine["load_after"] = os.getloadavg()
    return session


def _machine() -> dict[str, object]:
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
