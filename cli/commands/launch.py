"""``agentcompass launch``: evaluate everything that a launch file names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .gate_flags import AsJson, FailUnder, MaxUnevaluated

if TYPE_CHECKING:
    from ..config import ResolvedLaunch

LIMITS = "Limits of the whole launch"
OUTPUT = "Results and display"


def launch(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The launch file (YAML or JSON).")],
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config", metavar="FILE", help="Configuration file below the launch file; repeatable."
        ),
    ] = None,
    task_concurrency: Annotated[
        int | None,
        typer.Option(
            "--task-concurrency",
            metavar="N",
            min=1,
            rich_help_panel=LIMITS,
            help="Attempts at a time, over all requests.",
        ),
    ] = None,
    k: Annotated[
        int | None,
        typer.Option("--k", metavar="N", min=1, help="Independent attempts for each task of every request."),
    ] = None,
    timeout_seconds: Annotated[
        float | None,
        typer.Option(
            "--timeout-seconds",
            metavar="N",
            min=0,
            rich_help_panel=LIMITS,
            help="End everything after N seconds; 0 never.",
        ),
    ] = None,
    cleanup_grace_seconds: Annotated[
        float | None,
        typer.Option(
            "--cleanup-grace-seconds",
            metavar="N",
            min=0,
            rich_help_panel=LIMITS,
            help="Time for closing environments when it ends early.",
        ),
    ] = None,
    provider_limit: Annotated[
        list[str] | None,
        typer.Option(
            "--provider-limit",
            metavar="P=N",
            rich_help_panel=LIMITS,
            help="At most N environments of provider P at a time, 0 for no limit; repeatable.",
        ),
    ] = None,
    env_open_qps: Annotated[
        list[str] | None,
        typer.Option(
            "--env-open-qps",
            metavar="P=Q",
            rich_help_panel=LIMITS,
            help="Open at most Q environments of provider P a second; repeatable.",
        ),
    ] = None,
    recipe_dir: Annotated[
        list[str] | None,
        typer.Option("--recipe-dir", metavar="DIR", help="Also load recipes from this trusted directory."),
    ] = None,
    results_dir: Annotated[
        str | None,
        typer.Option(
            "--results-dir", metavar="DIR", rich_help_panel=OUTPUT, help="Where run directories go."
        ),
    ] = None,
    run_id: Annotated[
        str | None,
        typer.Option(
            "--run-id", metavar="ID", rich_help_panel=OUTPUT, help="Name of each request's run directory."
        ),
    ] = None,
    reuse: Annotated[
        str | None,
        typer.Option(
            "--reuse",
            metavar="[=RUN_ID]",
            rich_help_panel=OUTPUT,
            help="Every request takes over what its latest run has finished; --reuse=RUN_ID names another run.",
        ),
    ] = None,
    checkpoint_resume: Annotated[
        bool | None,
        typer.Option(
            "--checkpoint-resume/--no-checkpoint-resume",
            rich_help_panel=OUTPUT,
            help="With --reuse, continue unscored executions at their evaluation.  [default: yes]",
        ),
    ] = None,
    progress: Annotated[
        str | None,
        typer.Option(
            "--progress",
            metavar="auto|plain|none",
            rich_help_panel=OUTPUT,
            help="Live view, lines of text, or nothing.",
        ),
    ] = None,
    log_level: Annotated[
        str | None,
        typer.Option("--log-level", metavar="LEVEL", rich_help_panel=OUTPUT, help="On the terminal."),
    ] = None,
    file_log_level: Annotated[
        str | None,
        typer.Option(
            "--file-log-level", metavar="LEVEL", rich_help_panel=OUTPUT, help="In the runs' log files."
        ),
    ] = None,
    fail_under: FailUnder = None,
    max_unevaluated: MaxUnevaluated = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything, print the resolved plan, and start nothing.")
    ] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Start in the background; see `agentcompass attach`.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Evaluate every request of a launch file, in their order, with shared limits.

    A request that fails does not stop the others. Exit codes as for `agentcompass run`.
    """
    import asyncio

    from ..config import LaunchArguments, leave_literal, resolve_launch
    from ..verdict import parse_gates
    from .output import warn
    from .parse import number_by_name
    from .run import literal_store

    gates = parse_gates(fail_under, max_unevaluated)
    arguments = LaunchArguments(
        k=k,
        task_concurrency=task_concurrency,
        reuse=reuse,
        checkpoint_resume=checkpoint_resume,
        results_dir=results_dir,
        run_id=run_id,
        timeout_seconds=timeout_seconds,
        cleanup_grace_seconds=cleanup_grace_seconds,
        provider_limits=number_by_name(provider_limit, "--provider-limit", whole=True),
        env_open_qps=number_by_name(env_open_qps, "--env-open-qps"),
        progress=progress,
        log_level=log_level.upper() if log_level is not None else None,
        file_log_level=file_log_level.upper() if file_log_level is not None else None,
        recipe_dirs=recipe_dir or None,
        config=tuple(config or ()),
    )
    resolved = resolve_launch(file, arguments, store_literal=leave_literal if dry_run else literal_store())
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
