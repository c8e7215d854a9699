"""``agentcompass compare``: what changed between two runs of the same benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .gate_flags import PANEL, AsJson


def compare(
    old: Annotated[
        Path, typer.Argument(metavar="OLD_RUN_DIR", help="The run to compare with.", show_default=False)
    ],
    new: Annotated[
        Path, typer.Argument(metavar="NEW_RUN_DIR", help="The run that is judged.", show_default=False)
    ],
    fail_on_regression: Annotated[
        bool,
        typer.Option(
            "--fail-on-regression",
            rich_help_panel=PANEL,
            help="Exit with 1 when the new run is worse: the interval of the difference lies below 0, "
            "tasks lost their score, or nothing can be compared.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Compare two run directories task by task; needs no server.

    The difference of the primary metric is taken over the tasks that both runs evaluated, with a paired
    95 % interval. Larger numbers count as better.

    Exit codes: 0 compared; 1 worse, with --fail-on-regression, or a run or record that cannot be read; 2 bad usage.
    """
    import sys

    from ...activities.metrics.comparison import compare_runs
    from ..comparison_text import comparison_lines
    from ..damage_text import tell_damage
    from .output import print_json
    from .run_directory import run_directory

    found = compare_runs(run_directory(old, None), run_directory(new, None))
    if as_json:
        print_json(found)
    else:
        print("\n".join(comparison_lines(found)))
    damaged = tell_damage([*found.old.damaged, *found.new.damaged])
    if not fail_on_regression:
        return damaged
    for reason in found.regressions:
        print(f"Not passed: {reason}", file=sys.stderr)
    return 1 if found.regressed else damaged
