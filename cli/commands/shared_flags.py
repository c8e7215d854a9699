"""Flags that several commands share, and the groups that help pages show them in."""

from __future__ import annotations

from typing import Annotated

import typer

COMPONENTS = "What to evaluate, and where"
MODEL = "Model"
EXECUTION = "Attempts, retries and limits"
OUTPUT = "Results and reuse"
DISPLAY = "Configuration and display"

LaunchFileConfig = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        metavar="FILE",
        rich_help_panel=DISPLAY,
        help="Configuration file below the launch file; repeatable.",
    ),
]
Detach = Annotated[bool, typer.Option("--detach", help="Start in the background; see `agentcompass attach`.")]
TaskConcurrency = Annotated[
    int | None,
    typer.Option(
        "--task-concurrency",
        metavar="N",
        rich_help_panel=EXECUTION,
        help="Attempts that run at the same time.  [default: 32]",
    ),
]
ProviderLimit = Annotated[
    list[str] | None,
    typer.Option(
        "--provider-limit",
        metavar="P=N",
        rich_help_panel=EXECUTION,
        help="At most N environments of provider P at a time, 0 for no limit; repeatable.",
    ),
]
EnvOpenQps = Annotated[
    list[str] | None,
    typer.Option(
        "--env-open-qps",
        metavar="P=Q",
        rich_help_panel=EXECUTION,
        help="Open at most Q environments of provider P a second, 0 for no limit; repeatable.",
    ),
]
TimeoutSeconds = Annotated[
    float | None,
    typer.Option(
        "--timeout-seconds",
        metavar="N",
        rich_help_panel=EXECUTION,
        help="End the whole run after this time, 0 for no limit.  [default: 360000]",
    ),
]
CleanupGraceSeconds = Annotated[
    float | None,
    typer.Option(
        "--cleanup-grace-seconds",
        metavar="N",
        rich_help_panel=EXECUTION,
        help="Time for cleaning up after the end was asked for.  [default: 30]",
    ),
]
Attempts = Annotated[
    int | None,
    typer.Option(
        "--k",
        metavar="N",
        rich_help_panel=EXECUTION,
        help="Independent attempts for each task.  [default: 1]",
    ),
]
RecipeDir = Annotated[
    list[str] | None,
    typer.Option(
        "--recipe-dir",
        metavar="DIR",
        rich_help_panel=COMPONENTS,
        help="Load recipes from the Python files of this trusted directory; repeatable.",
    ),
]
ResultsDir = Annotated[
    str | None,
    typer.Option(
        "--results-dir",
        metavar="DIR",
        rich_help_panel=OUTPUT,
        help="Where run directories go, relative to the working directory.  [default: results]",
    ),
]
Reuse = Annotated[
    str | None,
    typer.Option(
        "--reuse",
        metavar="[=RUN_ID]",
        rich_help_panel=OUTPUT,
        help="Take over what the latest run has finished; --reuse=RUN_ID names another run.",
    ),
]
CheckpointResume = Annotated[
    bool | None,
    typer.Option(
        "--checkpoint-resume/--no-checkpoint-resume",
        rich_help_panel=OUTPUT,
        help="With --reuse, continue unscored executions at their evaluation.  [default: yes]",
    ),
]
Progress = Annotated[
    str | None,
    typer.Option(
        "--progress",
        metavar="auto|plain|none",
        rich_help_panel=DISPLAY,
        help="Live view, lines of text, or nothing.  [default: auto]",
    ),
]
LogLevel = Annotated[
    str | None,
    typer.Option(
        "--log-level",
        metavar="LEVEL",
        rich_help_panel=DISPLAY,
        help="DEBUG, INFO, WARNING or ERROR, for the terminal.  [default: INFO]",
    ),
]
FileLogLevel = Annotated[
    str | None,
    typer.Option(
        "--file-log-level",
        metavar="LEVEL",
        rich_help_panel=DISPLAY,
        help="The same for the run's log file.  [default: DEBUG]",
    ),
]
