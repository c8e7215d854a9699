"""Starting or joining a launch, and following it to its end."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...contracts.errors import UsageError
from .. import launcher
from ..display import Display, DisplayLogHandler, make_display
from ..launch_options import StartOptions
from ..verdict import Gates, judge_launch
from .output import print_json

if TYPE_CHECKING:
    from ...contracts.launch import LaunchSpec
    from ...contracts.request import LogLevel, ProgressMode
    from ..launch_handle import LaunchHandle


async def start_and_follow(spec: LaunchSpec, gates: Gates, *, detach: bool, as_json: bool) -> int:
    """Start the launch; follow it unless ``detach``. Returns the exit code.

    Raises ``UsageError`` for gates with ``detach``: nobody would be there to check them.
    """
    if detach and gates != Gates():
        raise UsageError(
            "--detach: nobody waits for the result; give --fail-under and --max-unevaluated to `agentcompass attach`"
        )
    handle = await launcher.start(spec, StartOptions(detach=detach))
    if detach:
        _print_started(handle, as_json=as_json)
        return 0
    return await follow_to_end(
        handle,
        gates,
        progress=spec.runtime.progress,
        log_level=spec.runtime.log_level,
        as_json=as_json,
    )


async def follow_to_end(
    handle: LaunchHandle, gates: Gates, *, progress: ProgressMode, log_level: LogLevel, as_json: bool
) -> int:
    """Show progress until the launch is over, then its result. Returns the exit code."""
    with make_display(progress) as display, _logging(display, log_level):
        display.address(handle.ui_address)
        try:
            result = await launcher.follow(handle, display)
        except BaseException as error:
            display.finish()
            if _is_interruption(error):
                display.message(_how_to_go_on(handle.launch_id))
            raise
        display.finish(result)
    from ..result_text import render_result

    if as_json:
        print_json(result)
    else:
        print(render_result(result, handle.ui_address))
    verdict = judge_launch(result, gates)
    for reason in verdict.reasons:
        print(f"Not passed: {reason}", file=sys.stderr)
    return verdict.exit_code


def _is_interruption(error: BaseException) -> bool:
    import asyncio

    return isinstance(error, KeyboardInterrupt | asyncio.CancelledError)


def _how_to_go_on(launch_id: str) -> str:
    return f"Left before the end; `agentcompass attach {launch_id}` follows it again."


def _print_started(handle: LaunchHandle, *, as_json: bool) -> None:
    if as_json:
        print_json({"launch_id": handle.launch_id, "ui_address": handle.ui_address})
        return
    print(f"Launch: {handle.launch_id}")
    if handle.ui_address:
        print(f"Temporal UI: {handle.ui_address}")
    print(f"Follow it with: agentcompass attach {handle.launch_id}")


@contextlib.contextmanager
def _logging(display: Display, level: LogLevel) -> Iterator[None]:
    """Log records of ours go through the display, secrets masked, while it is open."""
    from ...activities.redaction import RedactingFilter

    logger = logging.getLogger("agentcompass")
    handler = DisplayLogHandler(display)
    handler.addFilter(RedactingFilter())
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
