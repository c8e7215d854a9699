"""``agentcompass export``: a finished run in the format of another program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .gate_flags import AsJson
from .run_directory import InputDir


def export(
    run_dir: Annotated[
        Path | None, typer.Argument(metavar="RUN_DIR", help="A run directory.", show_default=False)
    ] = None,
    input_dir: InputDir = None,
    format: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="NAME",
            help="atif: a trajectory file for each attempt; harbor: a job directory for Harbor's viewer.",
            show_default=False,
        ),
    ] = "",
    output_dir: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="DIR",
            help="The new directory to write.  [default: RUN_DIR_atif or RUN_DIR_harbor, beside RUN_DIR]",
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Write the finished attempts of a run as ATIF trajectories or as a Harbor job; needs no server.

    The run itself is not changed.

    Exit codes: 0 done; 1 a task record cannot be read, the others were written; 2 bad usage.
    """
    from ...activities.export import ExportFormat, export_run
    from ...contracts.errors import UsageError
    from ..damage_text import tell_damage
    from .output import print_json
    from .run_directory import run_directory

    known = [item.value for item in ExportFormat]
    if format not in known:
        given = f"{format!r} is not" if format else "give"
        raise UsageError(f"--format: {given} one of {', '.join(known)}")
    report = export_run(run_directory(run_dir, input_dir), ExportFormat(format), output=output_dir)
    if as_json:
        print_json(report)
        return tell_damage(report.damaged)
    print(f"Exported: {report.attempts} attempts, {report.trajectories} of them with a trajectory")
    if report.unreadable:
        print(f"Left out: {report.unreadable} task records of an old version that say too little")
    print(f"Directory: {report.directory}")
    return tell_damage(report.damaged)
