"""Running one command to its end."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass

from ....contracts.environment import EnvironmentLostError, ExecResult
from ..shared.cancellation import finish
from ..shared.own_thread import in_own_thread
from ..shared.reports import KEPT_BYTES, Report, output_of, parsed_report, transferred
from ..shared.variables import checked_variables
from . import scripts
from .conversation import Conversation
from .params import DockerParams
from .sandbox import Sandbox

_FIRST_LOOKS_SECONDS = 0.2
_LOOK_SECONDS = 2.0
_ASK_SECONDS = 30.0
_REPORT_SECONDS = 10.0
_ENDING_SECONDS = 20.0
_STOPPED = "in a stopped state"
"""In what the engine says of a command that meets the end of its container."""


@dataclass(frozen=True)
class CommandLine:
    """A command as its supervisor gets it."""

    command: str
    """Text for a shell that becomes the command."""
    cwd: str
    variables: dict[str, str]
    user: str
    input: str = ""
    """Path of a file with its standard input."""

    def environment(self, script: str, kind: str, mark: str, params: DockerParams) -> dict[str, str]:
        """All variables of the exec, those for the supervisor included."""
        own = {
            "AC_RUN": scripts.text_of(script),
            "AC_KIND": kind,
            "AC_CWD": self.cwd,
            "AC_LIMIT": str(params.max_output_bytes),
            "AC_KEPT": str(KEPT_BYTES),
            "AC_TENTHS": str(round(params.grace_seconds * 10)),
            "AC_COMMAND": self.command,
            "AC_INPUT": self.input,
            "AC_USER": self.user,
            "AGENTCOMPASS_COMMAND": mark,
        }
        return checked_variables(self.variables) | own


async def run_to_end(
    sandbox: Sandbox, line: CommandLine, params: DockerParams, timeout_seconds: float | None
) -> ExecResult:
    """Run ``line``. However this ends early, nothing that the command started is alive afterwards."""
    began = time.monotonic()
    mark = f"x-{uuid.uuid4().hex[:16]}"
    prefix = f"{scripts.EXECUTIONS}/{mark}."
    variables = line.environment("run", "exec", mark, params)
    exec_id = await sandbox.in_thread(
        lambda: sandbox.create_exec(scripts.invocation("run", mark), variables, line.user, stdin=True)
    )
    conversation = Conversation(sandbox, exec_id)

    def converse() -> Report | None:
        conversation.begin()
        try:
            return conversation.read_report(prefix)
        finally:
            conversation.hang_up()

    talking = in_own_thread(converse, f"exec-{mark}")
    try:
        timed_out = not await _ended_within(sandbox, conversation, talking, timeout_seconds)
    except BaseException as error:  # cancelled, or the sandbox is lost
        try:
            await finish(_end(sandbox, conversation, talking, prefix, mark, line.user, params))
        except Exception as failure:  # behind what it was ended for
            raise error from failure
        raise
    if timed_out:
        await finish(_end(sandbox, conversation, talking, prefix, mark, line.user, params))
    report = await talking if talking.done() else None
    if report is None:
        report = await sandbox.in_thread(_report_on, sandbox, conversation, prefix)
    return ExecResult(
        returncode=None if timed_out else report.returncode,
        stdout=report.stdout,
        stderr=report.stderr,
        timed_out=timed_out,
        output_limit_exceeded=report.exceeded and not timed_out,
        oom_killed=report.out_of_memory,
        seconds=time.monotonic() - began,
    )


async def _ended_within(
    sandbox: Sandbox,
    conversation: Conversation,
    talking: asyncio.Future[Report | None],
    timeout_seconds: float | None,
) -> bool:
    """Wait for the report; False when time is up. Has the size of the output looked at meanwhile.

    A line that died unnoticed is found out by asking the engine.
    """
    began = asked = time.monotonic()
    deadline = None if timeout_seconds is None else began + timeout_seconds
    while True:
        now = time.monotonic()
        pause = _FIRST_LOOKS_SECONDS if now - began < _LOOK_SECONDS else _LOOK_SECONDS
        pause = pause if deadline is None else min(pause, deadline - now)
        if (await asyncio.wait({talking}, timeout=max(0.0, pause)))[0]:
            return True
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            return False
        conversation.say_look()
        if now - asked < _ASK_SECONDS:
            continue
        asked = now
        if not await sandbox.in_thread(_runs, sandbox, conversation.exec_id):
            await asyncio.wait({talking}, timeout=_REPORT_SECONDS)
            conversation.hang_up()


def _runs(sandbox: Sandbox, exec_id: str) -> bool:
    sandbox.require_alive()
    found = sandbox.engine.translated(sandbox.engine.api.exec_inspect, exec_id)
    return bool(found["Running"])


async def _end(
    sandbox: Sandbox,
    conversation: Conversation,
    talking: asyncio.Future[Report | None],
    prefix: str,
    mark: str,
    user: str,
    params: DockerParams,
) -> None:
    """End the command and all it started, by ever harder means."""
    conversation.say_end()
    await asyncio.wait({talking}, timeout=params.grace_seconds + _ENDING_SECONDS)
    if talking.done() and talking.exception() is None and talking.result() is not None:
        return
    conversation.hang_up()
    await asyncio.wait({talking}, timeout=_REPORT_SECONDS)
    if talking.done() and (failure := talking.exception()) is not None:
        raise failure
    code, text = await sandbox.in_thread(lambda: sandbox.script("end", prefix, mark, "0", user=user))
    if code:
        raise OSError(
            f"what a command left in environment {sandbox.environment_id!r} cannot be ended: "
            f"{text.decode('utf-8', 'replace').strip()[-300:] or 'it survives SIGKILL'}"
        )


def _report_on(sandbox: Sandbox, conversation: Conversation, prefix: str) -> Report:
    """The report of a command whose supervisor was killed, from what it left. Blocks."""
    sandbox.require_alive()
    found = sandbox.engine.translated(sandbox.engine.api.exec_inspect, conversation.exec_id)
    code = found["ExitCode"] if found["ExitCode"] is not None else 137
    status, data = sandbox.script("tell", prefix, str(KEPT_BYTES), str(code))
    line, _, rest = data.partition(b"\n")
    found_report = parsed_report(line.decode("utf-8", "replace"))
    if status or found_report is None:
        said = (bytes(conversation.complaints) or data).decode("utf-8", "replace").strip()[-500:]
        sandbox.require_alive()  # it may have been removed under us
        if _STOPPED in said:
            raise EnvironmentLostError(f"environment {sandbox.environment_id!r} is being removed")
        raise OSError(
            f"environment {sandbox.environment_id!r} cannot run commands: {said or f'status {code}'}"
        )
    _, exceeded, _, out, err = found_report
    cut = transferred(out)
    return Report(
        returncode=code,
        exceeded=bool(exceeded),
        out_of_memory=False,
        stdout=output_of(rest[:cut], out, f"{prefix}out"),
        stderr=output_of(rest[cut : cut + transferred(err)], err, f"{prefix}err"),
    )
