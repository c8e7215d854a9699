"""``agentcompass view``: one HTML file that shows a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .run_directory import InputDir


def view(
    run_dir: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN_DIR", help="A run directory, or a folder that holds several.", show_default=False
        ),
    ] = None,
    input_dir: InputDir = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="Where the report goes.  [default: RUN_DIR/report.html]"
        ),
    ] = None,
    each: Annotated[
        bool,
        typer.Option("--each", help="For a folder of several runs: write the report of every run, too."),
    ] = False,
    open_it: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
) -> int:
    """Write an HTML report of a run that opens without a network; needs no server.

    It shows score, coverage, categories, issues and cost, and every task with its answer and trajectory.
    For a folder with several runs it is a table that compares them. An earlier report is replaced,
    any other file is not.

    Exit codes: 0 done; 1 a task record cannot be read, which the report says, too; 2 bad usage.
    """
    from ...activities.html_report import find_runs, is_run, write_overview, write_run_report
    from ...contracts.errors import UsageError
    from ...contracts.records import DamagedRecord
    from ..damage_text import tell_damage
    from .run_directory import given_directory

    damaged: list[DamagedRecord] = []
    folder = given_directory(run_dir, input_dir)
    if is_run(folder):
        if each:
            raise UsageError(f"{folder} is one run; --each is for a folder that holds several")
        report = write_run_report(folder, output, damaged=damaged.append)
    else:
        runs = find_runs(folder)
        for path in runs if each else ():
            print(f"Report: {write_run_report(path, damaged=damaged.append)}")
        report = write_overview(folder, runs, output)
    print(f"Report: {report}")
    if open_it:
        _open(report)
    return tell_damage(damaged)


def _open(report: Path) -> None:
    import webbrowser

    from .output import warn

    if not webbrowser.open(report.as_uri()):
        warn(f"no browser could be started; open {report} in one")
