"""Commands that change a running launch, or repeat what failed in it: ``cancel``, ``set``, ``retry``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .gate_flags import AsJson, FailUnder, MaxUnevaluated
from .launches import LaunchId, say
from .shared_flags import Detach

if TYPE_CHECKING:
    from ...contracts.workflows import LimitsChange


def cancel(
    launch: LaunchId,
    request: Annotated[
        str, typer.Option("--request", metavar="NAME", help="Only this request; the others go on.")
    ] = "",
    task: Annotated[
        str,
        typer.Option("--task", metavar="TASK", help="Only this task, of --request when there are several."),
    ] = "",
) -> int:
    """Ask a launch, a request or a task to end: running attempts are stopped, environments removed."""
    import asyncio

    from .. import operating

    over = asyncio.run(operating.cancel(launch, request=request, task=task))
    if over and asyncio.run(operating.clean_up_after(launch)):
        print(f"{over} is over; what it left behind is now asked to end, and cleans up.")
    elif over:
        print(f"{over} is over already; there is nothing to do.")
    else:
        print(f"{_what(launch, request, task)}; see `agentcompass status {launch}`.")
    return 0


def _what(launch: str, request: str, task: str) -> str:
    if task:
        return f"Task {task} of launch {launch} has been asked to end"
    if request:
        return f"Request {request} of launch {launch} has been asked to end"
    return f"Launch {launch} has been asked to end"


def set_command(
    launch: LaunchId,
    settings: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SETTING...",
            help="task-concurrency=N, or provider-limit=ENVIRONMENT=N (0: no limit).",
            show_default=False,
        ),
    ] = None,
    task_concurrency: Annotated[
        str, typer.Option("--task-concurrency", metavar="N", help="The same as task-concurrency=N.")
    ] = "",
    provider_limit: Annotated[
        list[str] | None,
        typer.Option(
            "--provider-limit", metavar="ENVIRONMENT=N", help="The same as provider-limit=ENVIRONMENT=N."
        ),
    ] = None,
) -> int:
    """Change limits of a running launch; attempts that run already go on to their end."""
    import asyncio

    from ...contracts.errors import UsageError
    from .. import operating

    settings = list(settings or [])
    settings += [f"task-concurrency={task_concurrency}"] if task_concurrency else []
    settings += [f"provider-limit={limit}" for limit in provider_limit or []]
    if not settings:
        raise UsageError("say what is to be set: task-concurrency=N, or provider-limit=ENVIRONMENT=N")
    change = parse_settings(settings)
    told = asyncio.run(operating.set_limits(launch, change))
    return say(launch, told, f"Launch {launch}: {', '.join(settings)}")


def parse_settings(settings: list[str]) -> LimitsChange:
    """``task-concurrency=8 provider-limit=docker=4``. Raises ``UsageError`` for anything else."""
    import difflib

    from pydantic import ValidationError

    from ...contracts.errors import UsageError
    from ...contracts.workflows import LimitsChange

    concurrency: int | None = None
    limits: dict[str, int] = {}
    for setting in settings:
        name, _, value = setting.partition("=")
        if name == "task-concurrency":
            concurrency = _number(setting, value)
        elif name == "provider-limit":
            provider, separator, number = value.partition("=")
            if not provider or not separator:
                raise UsageError(f"{setting!r}: expected provider-limit=ENVIRONMENT=N")
            limits[provider] = _number(setting, number)
        else:
            known = ("task-concurrency", "provider-limit")
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UsageError(f"there is no setting {name!r}{hint} (there are: {', '.join(known)})")
    try:
        return LimitsChange(task_concurrency=concurrency, provider_limits=limits)
    except ValidationError as error:
        first = error.errors()[0]
        place = "-".join(str(part) for part in first["loc"][:1]).replace("_", "-")
        raise UsageError(f"{place}: {first['msg'].removeprefix('Input ')}") from None


def _number(setting: str, value: str) -> int:
    from ...contracts.errors import UsageError

    if not value.isascii() or not value.isdigit():
        raise UsageError(f"{setting!r}: {value!r} is not a whole number")
    return int(value)


def retry(
    launch: LaunchId,
    failed: Annotated[
        bool,
        typer.Option("--failed", help="Execute again what ended with a FATAL issue. The only choice so far."),
    ] = False,
    fail_under: FailUnder = None,
    max_unevaluated: MaxUnevaluated = None,
    detach: Detach = False,
    as_json: AsJson = False,
) -> int:
    """Execute the failed tasks of a launch again; everything that is valid stays as it is.

    In a running launch they are queued again, in the same runs. A launch that is over is followed by a new one with
    the requests that were not completed; their new runs take over all valid results.
    """
    import asyncio

    from ...contracts.errors import UsageError
    from .. import operating
    from ..verdict import parse_gates
    from .follow import start_and_follow

    if not failed:
        raise UsageError("say what is to be executed again: agentcompass retry LAUNCH --failed")
    gates = parse_gates(fail_under, max_unevaluated)

    async def again() -> int:
        spec = await operating.retry_failed(launch)
        if isinstance(spec, int):
            print(
                f"Failed tasks of launch {launch} are queued again; see `agentcompass status {launch}`."
                if spec
                else f"Launch {launch} runs, and no task of a running request has failed so far: there is nothing "
                "to do. What failed in requests that are over is repeated when the launch is over."
            )
            return 0
        if not spec.requests:
            print(f"Every request of launch {launch} is completed; there is nothing to do.")
            return 0
        return await start_and_follow(spec, gates, detach=detach, as_json=as_json)

    return asyncio.run(again())
