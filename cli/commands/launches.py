"""Commands on launches that exist: ``attach``, ``status``, ``pause``, ``resume``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .gate_flags import AsJson, FailUnder, MaxUnevaluated

if TYPE_CHECKING:
    from ...contracts.launch import LaunchStatus, RunningTask

OneRequest = Annotated[
    str, typer.Option("--request", metavar="NAME", help="Only this request of the launch; see `status`.")
]
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


def status(
    launch: LaunchId,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Go on showing it until the launch is over; Ctrl-C ends only the view. With --json one line a second.",
        ),
    ] = False,
    exit_code: Annotated[
        bool,
        typer.Option(
            "--exit-code", help="Exit as the launch did: 1 when it did not end well, 130 cancelled."
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show how far a launch is. Unlike `attach` it takes no part in it.

    A view that is left with Ctrl-C ends with 130.
    """
    import asyncio

    from .. import launcher
    from ..verdict import exit_code_of
    from .output import print_json

    if watch:
        found = _watch(launch, as_json=as_json)
    else:
        found = asyncio.run(launcher.status(launch))
        if as_json:
            print_json(found)
    if not as_json:
        print("\n".join(status_lines(found)))
    return exit_code_of(found) if exit_code else 0


def _watch(launch: str, *, as_json: bool) -> LaunchStatus:
    """Show the launch until it is over; returns its last state."""
    import asyncio
    import sys

    from ..display import PlainDisplay
    from ..watching import watch

    try:
        if as_json:
            return asyncio.run(watch(launch, lambda found, _: print(found.model_dump_json(), flush=True)))
        if sys.stdout.isatty():
            from ..watch_display import WatchDisplay

            display: WatchDisplay | PlainDisplay = WatchDisplay(sys.stdout)
        else:
            display = PlainDisplay(sys.stdout)
        with display:
            return asyncio.run(watch(launch, display.update))
    except KeyboardInterrupt:
        print(f"The launch goes on; `agentcompass status {launch} --watch` shows it again.", file=sys.stderr)
        raise


def pause(
    launch: LaunchId,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Shown by status and in the UI.")
    ] = "",
    request: OneRequest = "",
) -> int:
    """Let a launch start no further attempts; those that run go on."""
    import asyncio

    from .. import launcher

    told = asyncio.run(launcher.pause(launch, reason, request))
    what, flag = _one(launch, request)
    return say(launch, told, f"{what} is paused; go on with: agentcompass resume {launch}{flag}")


def resume(launch: LaunchId, request: OneRequest = "") -> int:
    """Let a paused launch go on, for example after a refused API key was mended.

    The local worker is restarted with the environment variables of this shell. With --request, requests that wait for the
    same endpoint go on, too; what somebody has paused by itself stays paused.
    """
    import asyncio

    from .. import launcher

    told = asyncio.run(launcher.resume(launch, request))
    if not told:
        print(
            f"Launch {launch} is over already; what of it has no result is executed by: "
            f"agentcompass retry {launch} --failed"
        )
        return 0
    what, _ = _one(launch, request)
    return say(launch, told, f"{what} goes on; follow it with: agentcompass attach {launch}")


def _one(launch: str, request: str) -> tuple[str, str]:
    """What is paused or resumed, and the flag that names it."""
    if request:
        return f"Request {request} of launch {launch}", f" --request {request}"
    return f"Launch {launch}", ""


def say(launch: str, told: bool, text: str) -> int:
    """Print ``text``, or that there is nothing to do; always exit code 0."""
    print(text if told else f"Launch {launch} is over already; there is nothing to do.")
    return 0


def status_lines(found: LaunchStatus) -> list[str]:
    """A launch's state as text."""
    from ...contracts.launch import OVER_STATES
    from ..progress_text import progress_of

    lines = [f"Launch: {found.launch_id} ({found.state})"]
    if found.task_concurrency and found.state not in OVER_STATES:
        lines.append(f"Limits: {limits_text(found)}")
    told = {line for request in found.requests for line in request.message.splitlines()}
    if not told.issuperset(found.message.splitlines()):
        lines.append(f"Message: {found.message}")
    lines += [f"Trouble: {text}" for text in found.troubles]
    for request, progress in zip(found.requests, progress_of(found, None), strict=True):
        lines.append(
            f"{request.key}: {progress.status} | {progress.finished}/{progress.total} "
            f"{progress.share * 100:.1f}% | {progress.counts()}{_waiting(progress.waiting)}"
        )
        if request.message:
            lines.append(f"  {request.message}")
        if request.run_dir:
            lines.append(f"  Run directory: {request.run_dir}")
        lines += [f"  {_running_line(task)}" for task in request.running_tasks]
    return lines


def _waiting(attempts: int) -> str:
    return f" waiting={attempts}" if attempts else ""


def limits_text(found: LaunchStatus) -> str:
    """``32 attempts at a time, docker 4``."""
    limits = [f"{name} {limit}" for name, limit in sorted(found.provider_limits.items()) if limit]
    return ", ".join([f"{found.task_concurrency} attempts at a time", *limits])


def _running_line(task: RunningTask) -> str:
    """``HumanEval/3 a1: run_harness for 42 s, last step 3 s ago``."""
    step = "" if task.last_step_seconds is None else f", last step {task.last_step_seconds:.0f} s ago"
    return f"{task.task_id} a{task.attempt or 1}: {task.phase} for {task.phase_seconds:.0f} s{step}"
