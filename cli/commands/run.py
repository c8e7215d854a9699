"""``agentcompass run``: evaluate one model on one benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..flags import takes_flags
from .gate_flags import AsJson, FailUnder, MaxUnevaluated
from .run_flags import RunFlags

if TYPE_CHECKING:
    from ..config import ResolvedRun, StoreLiteral
    from ..verdict import Gates

START = "Starting"


@takes_flags(RunFlags)
def run(
    flags: RunFlags,
    fail_under: FailUnder = None,
    max_unevaluated: MaxUnevaluated = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", rich_help_panel=START, help="Check everything, print it, and start nothing."
        ),
    ] = False,
    detach: Annotated[
        bool,
        typer.Option(
            "--detach", rich_help_panel=START, help="Start in the background; see `agentcompass attach`."
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Evaluate MODEL on BENCHMARK with agent HARNESS.

    Finished work is never lost: after a crash or a closed terminal, `agentcompass attach` goes on
    where it was. Ctrl-C ends the run and cleans up.

    Exit codes: 0 completed; 1 finished but not valid, or below a gate; 2 bad usage or configuration;
    3 a needed service is unreachable; 130 interrupted.
    """
    import asyncio

    from ..config import effective_values, leave_literal, resolve_run
    from ..verdict import parse_gates
    from .output import print_values, warn

    gates = parse_gates(fail_under, max_unevaluated)
    store = leave_literal if dry_run else literal_store()
    resolved = resolve_run(flags.arguments(), store_literal=store)
    _check_gates(gates, resolved)
    for warning in resolved.warnings:
        warn(warning)
    if dry_run:
        print_values(effective_values(resolved), as_json=as_json)
        return 0
    from .follow import start_and_follow

    return asyncio.run(start_and_follow(resolved.spec(), gates, detach=detach, as_json=as_json))


def literal_store() -> StoreLiteral:
    """Where a key that was written out goes: a private file, or with a cluster into the request, encrypted."""
    from ..config import HomeSecretStore, cluster_store
    from ..connection import resolve_connection
    from ..home import home_folder

    if resolve_connection().mode == "cluster":
        return cluster_store()
    return HomeSecretStore(home_folder())


def _check_gates(gates: Gates, resolved: ResolvedRun) -> None:
    """A misspelt metric is found now, not after hours."""
    if not gates.fail_under:
        return
    from ...plugins.registry import load_registry

    request = resolved.request
    benchmark = load_registry(request.metadata.recipe_dirs).get_benchmark(request.benchmark.id)
    gates.check_names(benchmark.metric_contract, request.execution.attempts)
