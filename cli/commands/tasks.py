"""Commands on single tasks of a launch that runs: ``logs``, ``end``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ...activities.store import RecordedStep
    from ..attempt_log import AttemptLog

TaskId = Annotated[
    str, typer.Argument(metavar="TASK", help="Id of the task; see `agentcompass status LAUNCH`.")
]
Launch = Annotated[
    str | None,
    typer.Option(
        "--launch", metavar="LAUNCH", help="When the task runs in several launches.", show_default=False
    ),
]
Request = Annotated[
    str | None,
    typer.Option(
        "--request",
        metavar="NAME",
        help="When requests of the launch share the task's id.",
        show_default=False,
    ),
]
Attempt = Annotated[
    int | None,
    typer.Option(
        "--attempt",
        metavar="N",
        min=1,
        help="By default the one that runs, else the last.",
        show_default=False,
    ),
]


def logs(
    task: TaskId,
    launch: Launch = None,
    request: Request = None,
    run_dir: Annotated[
        Path | None,
        typer.Option(
            "--run-dir", metavar="DIR", help="Read this run directory; needs no server.", show_default=False
        ),
    ] = None,
    attempt: Attempt = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the attempt is over; Ctrl-C leaves earlier.")
    ] = False,
    last: Annotated[
        int, typer.Option("--last", "-n", metavar="N", min=0, help="How many of the steps so far.")
    ] = 10,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object a line for each step, nothing cut.")
    ] = False,
) -> int:
    """Show the last steps of an agent, while it runs or afterwards."""
    import asyncio
    import sys

    from ...contracts.errors import UsageError
    from ..attempt_log import AttemptLog
    from ..attempts import Wanted
    from ..task_control import locate

    if run_dir is not None and (launch or request):
        raise UsageError("--run-dir names the run already; --launch and --request do not go with it")
    if run_dir is None:
        located = asyncio.run(locate(Wanted(task, launch, request, attempt)))
        run_dir, attempt = located.run_dir, located.attempt.attempt
        if located.other_launches:
            latest = f"this is {located.attempt.launch_id}, and --launch chooses another one"
            print(f"Task {task!r} is in {located.other_launches + 1} launches; {latest}.", file=sys.stderr)
        if located.other_requests:
            count, key = located.other_requests + 1, located.attempt.request_key
            chosen = f"this is {key}, and --request chooses another one"
            print(f"Task {task!r} is in {count} requests of that launch; {chosen}.", file=sys.stderr)
    log = AttemptLog(run_dir, task, attempt)
    so_far = log.steps()
    for step in so_far[len(so_far) - last if last < len(so_far) else 0 :]:
        _print_step(log, task, step, as_json=as_json)
    if follow:
        for step in log.follow():
            _print_step(log, task, step, as_json=as_json)
    print(_last_line(log, any_step=bool(so_far) or follow), file=sys.stderr)
    return 0


def end(
    task: TaskId,
    launch: Launch = None,
    request: Request = None,
    attempt: Attempt = None,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Goes into the issue beside the score.")
    ] = "",
) -> int:
    """End a running attempt as failed, with what it has.

    Its agent's processes are ended, what it left is collected and evaluated, and an ERROR beside the score
    says who ended it. An evaluation that does not come to its end is ended without a score. The run can
    still be final, and the attempt is not executed again.
    """
    import asyncio
    import shlex

    from ..attempts import Wanted
    from ..task_control import end_attempt

    ended = asyncio.run(end_attempt(Wanted(task, launch, request, attempt), reason))
    which = [*(["--launch", launch] if launch else []), *(["--request", request] if request else [])]
    command = ["agentcompass", "logs", task, *which, "--attempt", str(ended.attempt.attempt), "--follow"]
    print(f"Ending {ended.phase} of {ended.attempt.name}; see: {shlex.join(command)}")
    return 0


def _print_step(log: AttemptLog, task: str, recorded: RecordedStep, *, as_json: bool) -> None:
    import json

    from ..step_text import step_text

    if as_json:
        line = {"task_id": task, "attempt": log.attempt, **recorded.model_dump(mode="json")}
        print(json.dumps(line), flush=True)  # pure ASCII: nothing in it can move a cursor
    else:
        print(step_text(recorded), flush=True)


def _last_line(log: AttemptLog, *, any_step: bool) -> str:
    """What follows the steps: how the attempt ended, or that it has not."""
    from ..terminal_text import safe_text

    result = log.result()
    if result is None:
        state = "ended without a result" if log.over else f"is in {log.phase}" if log.phase else "is not over"
        return f"Attempt {log.attempt} {state}{'' if any_step else '; it has recorded no step yet'}."
    issues = "; ".join(f"{issue.severity} {issue.code}: {issue.message}" for issue in result.issues)
    told = safe_text(issues).replace("\n", " ")
    return f"Attempt {log.attempt} ended: {result.status}{f'; {told}' if told else ''}"
