"""``agentcompass summary``: compute the numbers of a finished run again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .gate_flags import AsJson, FailUnder, MaxUnevaluated
from .run_directory import InputDir


def summary(
    run_dir: Annotated[
        Path | None, typer.Argument(metavar="RUN_DIR", help="A run directory.", show_default=False)
    ] = None,
    input_dir: InputDir = None,
    fail_under: FailUnder = None,
    max_unevaluated: MaxUnevaluated = None,
    as_json: AsJson = False,
) -> int:
    """Write metrics.json and summary.md again from the task records; needs no server.

    Exit codes are those of `agentcompass run`.
    """
    import sys

    from ...activities.finalize import recompute
    from ..result_text import request_lines
    from ..verdict import judge, parse_gates
    from .output import print_json
    from .run_directory import run_directory

    gates = parse_gates(fail_under, max_unevaluated)
    result = recompute(run_directory(run_dir, input_dir))
    if as_json:
        print_json(result)
    else:
        print("\n".join(request_lines(result)))
    verdict = judge([result], gates)
    for reason in verdict.reasons:
        print(f"Not passed: {reason}", file=sys.stderr)
    return verdict.exit_code
