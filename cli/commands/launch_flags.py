"""The flags of ``agentcompass launch``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..config import LaunchArguments

LIMITS = "Limits of the whole launch"
OUTPUT = "Results and display"


@dataclass(frozen=True)
class LaunchFlags:
    """What the command line says over a launch file."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="The launch file (YAML or JSON).")]
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config", metavar="FILE", help="Configuration file below the launch file; repeatable."
        ),
    ] = None
    task_concurrency: Annotated[
        int | None,
        typer.Option(
            "--task-concurrency",
            metavar="N",
            min=1,
            rich_help_panel=LIMITS,
            help="Attempts at a time, over all requests.",
        ),
    ] = None
    k: Annotated[
        int | None,
        typer.Option("--k", metavar="N", min=1, help="Independent attempts for each task of every request."),
    ] = None
    timeout_seconds: Annotated[
        float | None,
        typer.Option(
            "--timeout-seconds",
            metavar="N",
            min=0,
            rich_help_panel=LIMITS,
            help="End everything after N seconds; 0 never.",
        ),
    ] = None
    cleanup_grace_seconds: Annotated[
        float | None,
        typer.Option(
            "--cleanup-grace-seconds",
            metavar="N",
            min=0,
            rich_help_panel=LIMITS,
            help="Time for closing environments when it ends early.",
        ),
    ] = None
    provider_limit: Annotated[
        list[str] | None,
        typer.Option(
            "--provider-limit",
            metavar="P=N",
            rich_help_panel=LIMITS,
            help="At most N environments of provider P at a time, 0 for no limit; repeatable.",
        ),
    ] = None
    env_open_qps: Annotated[
        list[str] | None,
        typer.Option(
            "--env-open-qps",
            metavar="P=Q",
            rich_help_panel=LIMITS,
            help="Open at most Q environments of provider P a second; repeatable.",
        ),
    ] = None
    recipe_dir: Annotated[
        list[str] | None,
        typer.Option("--recipe-dir", metavar="DIR", help="Also load recipes from this trusted directory."),
    ] = None
    results_dir: Annotated[
        str | None,
        typer.Option(
            "--results-dir", metavar="DIR", rich_help_panel=OUTPUT, help="Where run directories go."
        ),
    ] = None
    run_id: Annotated[
        str | None,
        typer.Option(
            "--run-id", metavar="ID", rich_help_panel=OUTPUT, help="Name of each request's run directory."
        ),
    ] = None
    reuse: Annotated[
        str | None,
        typer.Option(
            "--reuse",
            metavar="[=RUN_ID]",
            rich_help_panel=OUTPUT,
            help="Every request takes over what its latest run has finished; --reuse=RUN_ID names another run.",
        ),
    ] = None
    checkpoint_resume: Annotated[
        bool | None,
        typer.Option(
            "--checkpoint-resume/--no-checkpoint-resume",
            rich_help_panel=OUTPUT,
            help="With --reuse, continue unscored executions at their evaluation.  [default: yes]",
        ),
    ] = None
    progress: Annotated[
        str | None,
        typer.Option(
            "--progress",
            metavar="auto|plain|none",
            rich_help_panel=OUTPUT,
            help="Live view, lines of text, or nothing.",
        ),
    ] = None
    log_level: Annotated[
        str | None,
        typer.Option("--log-level", metavar="LEVEL", rich_help_panel=OUTPUT, help="On the terminal."),
    ] = None
    file_log_level: Annotated[
        str | None,
        typer.Option(
            "--file-log-level", metavar="LEVEL", rich_help_panel=OUTPUT, help="In the runs' log files."
        ),
    ] = None

    def arguments(self) -> LaunchArguments:
        """The flags parsed. Raises ``ConfigurationError`` that names the flag."""
        from ..config import LaunchArguments
        from .parse import number_by_name

        return LaunchArguments(
            k=self.k,
            task_concurrency=self.task_concurrency,
            reuse=self.reuse,
            checkpoint_resume=self.checkpoint_resume,
            results_dir=self.results_dir,
            run_id=self.run_id,
            timeout_seconds=self.timeout_seconds,
            cleanup_grace_seconds=self.cleanup_grace_seconds,
            provider_limits=number_by_name(self.provider_limit, "--provider-limit", whole=True),
            env_open_qps=number_by_name(self.env_open_qps, "--env-open-qps"),
            progress=self.progress,
            log_level=self.log_level.upper() if self.log_level is not None else None,
            file_log_level=self.file_log_level.upper() if self.file_log_level is not None else None,
            recipe_dirs=self.recipe_dir or None,
            config=tuple(self.config or ()),
        )
