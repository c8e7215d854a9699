"""``agentcompass launch``: evaluate everything that a launch file names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..flags import takes_flags
from .gate_flags import AsJson, FailUnder, MaxUnevaluated
from .launch_flags import LaunchFlags
from .shared_flags import Detach

if TYPE_CHECKING:
    from ..config import ResolvedLaunch


@takes_flags(LaunchFlags)
def launch(
    flags: LaunchFlags,
    fail_under: FailUnder = None,
    max_unevaluated: MaxUnevaluated = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print the resolved plan, and start nothing.")
    ] = False,
    detach: Detach = False,
    as_json: AsJson = False,
) -> int:
    """Evaluate every request of a launch file, in their order, with shared limits.

    A request that fails does not stop the others. Exit codes as for `agentcompass run`.
    """
    import asyncio

    from ..config import leave_literal, resolve_launch
    from ..verdict import parse_gates
    from .output import warn
    from .run import literal_store

    gates = parse_gates(fail_under, max_unevaluated)
    store = leave_literal if dry_run else literal_store()
    resolved = resolve_launch(flags.file, flags.arguments(), store_literal=store)
    for warning in resolved.warnings:
        warn(warning)
    if dry_run:
        return _print_plan(resolved, as_json=as_json)
    from .follow import start_and_follow

    return asyncio.run(start_and_follow(resolved.spec, gates, detach=detach, as_json=as_json))


def _print_plan(resolved: ResolvedLaunch, *, as_json: bool) -> int:
    """The resolved requests, secrets masked."""
    from ..config import effective_values
    from .output import print_json, print_values

    if as_json:
        print_json(
            {
                run.request.metadata.request_name: {
                    item.path: {"value": item.value, "origin": item.origin} for item in effective_values(run)
                }
                for run in resolved.runs
            }
        )
        return 0
    for run in resolved.runs:
        print(f"# {run.request.metadata.request_name}")
        print_values(effective_values(run), as_json=False)
        print()
    return 0
