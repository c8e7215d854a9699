"""The commands that prepare artifacts: in order, within their own limits and that of the group."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ...contracts.artifacts import ArtifactCommand
from ...contracts.environment import EnvironmentSession, ExecResult
from .progress import CollectionProgress

GROUP_BUDGET = "artifact_collect_timeout_seconds"
_SHOWN = 80


class ArtifactCommandError(Exception):
    """A command failed or ran out of time. ``output`` is what it wrote, for the diagnostics."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        if output:
            self.add_note(output)


async def run_commands(
    session: EnvironmentSession,
    commands: Sequence[ArtifactCommand],
    group_seconds: float | None,
    progress: CollectionProgress,
    save: Callable[[], None],
) -> None:
    """Run what ``progress`` does not count as done. Raises ``ArtifactCommandError``.

    A worker that dies repeats at most the command that it was in. After a timeout nothing that the
    command started is alive: that is the provider's promise.
    """
    for index, command in enumerate(commands):
        if index < progress.commands_done:
            continue
        what = f"artifact command {index + 1} of {len(commands)} ({_short(command.command)})"
        left = None if group_seconds is None else group_seconds - progress.command_seconds
        if left is not None and left <= 0:
            raise ArtifactCommandError(_group_message(group_seconds, f"{what} was not started"))
        limits = [seconds for seconds in (command.timeout_seconds, left) if seconds is not None]
        began = time.monotonic()
        try:
            result = await session.exec(
                command.command, timeout_seconds=min(limits, default=None), user=command.user
            )
        finally:
            progress.command_seconds += time.monotonic() - began
            save()
        _require_success(result, what, command, left, group_seconds)
        progress.commands_done = index + 1
        save()


def _require_success(
    result: ExecResult,
    what: str,
    command: ArtifactCommand,
    left: float | None,
    group_seconds: float | None,
) -> None:
    if result.ok and not result.output_limit_exceeded:
        return
    output = f"stdout:\n{result.stdout.text}\nstderr:\n{result.stderr.text}"
    if result.timed_out:
        own = command.timeout_seconds
        if own is not None and (left is None or own <= left):
            message = f"{what} ran longer than its timeout_seconds of {own:g} s"
        else:
            message = _group_message(group_seconds, f"{what} was ended")
        raise ArtifactCommandError(message, output)
    if result.output_limit_exceeded:
        raise ArtifactCommandError(f"{what} wrote more than the environment allows", output)
    lines = result.stderr.text.strip().splitlines()
    detail = f": {lines[-1]}" if lines else ""
    raise ArtifactCommandError(f"{what} ended with status {result.returncode}{detail}", output)


def _group_message(seconds: float | None, then: str) -> str:
    return f"the budget of {seconds or 0:g} s for artifact commands ({GROUP_BUDGET}) is used up: {then}"


def _short(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
