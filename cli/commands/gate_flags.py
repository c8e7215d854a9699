"""The flags that turn a result into an exit code."""

from __future__ import annotations

from typing import Annotated

import typer

PANEL = "Exit code"

FailUnder = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-under",
        metavar="METRIC=VALUE",
        rich_help_panel=PANEL,
        help="Exit with 1 when this metric is lower, or has no official value; repeatable.",
    ),
]
MaxUnevaluated = Annotated[
    int | None,
    typer.Option(
        "--max-unevaluated",
        metavar="N",
        rich_help_panel=PANEL,
        help="Exit with 1 when more than N tasks have no score.",
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print the result as JSON on standard output, and nothing else there."),
]
