"""Commands on launches that exist: ``attach``, ``status``, ``cancel``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .gate_flags import AsJson, FailUnder, MaxUnevaluated

if TYPE_CHECKING:
    from ...contracts.launch import LaunchStatus

LaunchId = Annotated[str, typer.Argument(metavar="LAUNCH", help="Id of the launch; see `agentcompass list`.")]


def attach(
    launch: LaunchId,
    fail_under: FailUnder = None,
    max_unevaluated: MaxUnevaluated = None,
    progress: Annotated[
        str,
        typer.Option("--progress", metavar="auto|plain|none", help="Live view, lines of text, or nothing."),
    ] = "auto",
    log_level: Annotated[
        str, typer.Option("--log-level", metavar="LEVEL", help="DEBUG, INFO, WARNING or ERROR.")
    ] = "INFO",
    as_json: AsJson = False,
) -> int:
    """Follow a launch that was started before, and go on with it if its worker is gone."""
    import asyncio

    from ..verdict import parse_gates
    from .choices import log_level_of, progress_mode

    mode, level = progress_mode(progress), log_level_of(log_level)
    gates = parse_gates(fail_under, max_unevaluated)

    async def join() -> int:
        from .. import launcher
        from .follow import follow_to_end

        handle = await launcher.attach(launch)
        return await follow_to_end(handle, gates, progress=mode, log_level=level, as_json=as_json)

    return asyncio.run(join())


def status(launch: LaunchId, as_json: AsJson = False) -> int:
    """Show how far a launch is."""
    import asyncio

    from .. import launcher
    from .output import print_json

    found = asyncio.run(launcher.status(launch))
    if as_json:
        print_json(found)
    else:
        print("\n".join(status_lines(found)))
    return 0


def cancel(launch: LaunchId) -> int:
    """Ask a launch to end: running attempts are stopped and their environments removed."""
    import asyncio

    from .. import launcher

    if asyncio.run(launcher.cancel(launch)):
        print(f"Launch {launch} has been asked to end; see `agentcompass status {launch}`.")
    else:
        print(f"Launch {launch} is over already.")
    return 0


def status_lines(found: LaunchStatus) -> list[str]:
    """A launch's state as text."""
    from ..progress_text import progress_of

    lines = [f"Launch: {found.launch_id} ({found.state})"]
    if found.message:
        lines.append(f"Message: {found.message}")
    for request, progress in zip(found.requests, progress_of(found, None), strict=True):
        lines.append(
            f"{request.key}: {progress.status} | {progress.finished}/{progress.total} "
            f"{progress.share * 100:.1f}% | {progress.counts()}"
        )
        if request.message:
            lines.append(f"  {request.message}")
        if request.run_dir:
            lines.append(f"  Run directory: {request.run_dir}")
    return lines
