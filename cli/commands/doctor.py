"""``agentcompass doctor``: what works on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .gate_flags import AsJson


def doctor(
    results_dir: Annotated[
        Path | None,
        typer.Option(
            "--results-dir", metavar="DIR", help="Where results go.  [default: as configured, else results]"
        ),
    ] = None,
    model_base_url: Annotated[
        str | None, typer.Option("--model-base-url", metavar="URL", help="Ask this model endpoint, too.")
    ] = None,
    model_api_protocol: Annotated[
        str,
        typer.Option(
            "--model-api-protocol",
            metavar="PROTOCOL",
            help="openai-chat, openai-responses, anthropic or auto.",
        ),
    ] = "auto",
    as_json: AsJson = False,
) -> int:
    """Check what works on this machine, and say what to do about the rest.

    Looks at Python, packages, plugins, configuration, the Temporal server or cluster and its workers, the
    Docker engine, credentials (only whether they are set), a model endpoint, disks, file locks, limits and
    the clock. Starts nothing and spends no tokens.

    Exit codes: 0 everything that every run needs works, warnings or not; 1 something failed; 2 bad usage;
    3 nothing failed, but Temporal or the model endpoint cannot be reached.
    """
    import asyncio
    import os

    from ...contracts.workflows import CLUSTER_QUEUE, QUEUE_VARIABLE
    from ..doctor import DoctorOptions, diagnose
    from ..doctor.model_endpoint import model_spec
    from ..doctor.text import show
    from .output import print_json

    model = model_spec(model_base_url, model_api_protocol) if model_base_url else None
    queue = os.environ.get(QUEUE_VARIABLE) or CLUSTER_QUEUE
    report = asyncio.run(diagnose(DoctorOptions(results_dir=results_dir, model=model, queue=queue)))
    if as_json:
        print_json(report)
    else:
        show(report)
    return report.exit_code
