"""The flags of ``agentcompass launch``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .shared_flags import (
    OUTPUT,
    Attempts,
    CheckpointResume,
    CleanupGraceSeconds,
    EnvOpenQps,
    FileLogLevel,
    LaunchFileConfig,
    LogLevel,
    Progress,
    ProviderLimit,
    RecipeDir,
    ResultsDir,
    Reuse,
    TaskConcurrency,
    TimeoutSeconds,
)

if TYPE_CHECKING:
    from ..config import LaunchArguments


@dataclass(frozen=True)
class LaunchFlags:
    """What the command line says over a launch file."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="The launch file (YAML or JSON).")]
    config: LaunchFileConfig = None
    task_concurrency: TaskConcurrency = None
    k: Attempts = None
    timeout_seconds: TimeoutSeconds = None
    cleanup_grace_seconds: CleanupGraceSeconds = None
    provider_limit: ProviderLimit = None
    env_open_qps: EnvOpenQps = None
    recipe_dir: RecipeDir = None
    results_dir: ResultsDir = None
    run_id: Annotated[
        str | None,
        typer.Option(
            "--run-id", metavar="ID", rich_help_panel=OUTPUT, help="Name of each request's run directory."
        ),
    ] = None
    reuse: Reuse = None
    checkpoint_resume: CheckpointResume = None
    progress: Progress = None
    log_level: LogLevel = None
    file_log_level: FileLogLevel = None

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
