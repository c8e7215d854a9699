"""Running one command to its end."""

from __future__ import annotations

import functools
import time
import uuid
from dataclasses import dataclass

from ....contracts.environment import ExecResult, Output
from ..shared.cancellation import finish
from ..shared.own_thread import in_own_thread
from ..shared.reports import KEPT_BYTES, Report, output_of, parsed_report, transferred
from .limits import RemoteLimits
from .shell import EXECUTIONS, Answer, RemoteShellError, Shell

_LONGEST_WAIT_SECONDS = 10.0
"""Of one call; what lies between may not like longer ones."""
_LEASE_LOOKS = 90
"""Looks of the supervisor, about as many seconds, after which a command that nobody asks for is ended."""
_ENDING_SECONDS = 30.0


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

    def environment(self, kind: str, limits: RemoteLimits) -> dict[str, str]:
        """Its variables and those for the supervisor."""
        return self.variables | {
            "AC_KIND": kind,
            "AC_CWD": self.cwd,
            "AC_LIMIT": str(limits.max_output_bytes),
            "AC_TENTHS": str(round(limits.grace_seconds * 10)),
            "AC_COMMAND": self.command,
            "AC_INPUT": self.input,
            "AC_USER": self.user,
            "AC_LEASE": str(_LEASE_LOOKS) if kind == "lease" else "0",
        }


async def run_to_end(
    shell: Shell, line: CommandLine, limits: RemoteLimits, timeout_seconds: float | None
) -> ExecResult:
    """Run ``line``. However this ends early, nothing that the command started is alive afterwards.

    When this very process dies, the sandbox ends the command by itself after a minute or two.
    """
    began = time.monotonic()
    execution = _Execution(shell, line, limits, f"x-{uuid.uuid4().hex[:16]}")
    try:
        report = await execution.report(None if timeout_seconds is None else began + timeout_seconds)
    except BaseException as error:  # cancelled, or the sandbox is lost
        try:
            await finish(execution.stop())
        except Exception as failure:  # behind what it was ended for
            raise error from failure
        raise
    timed_out = report is None
    if report is None:
        report = await finish(execution.stopped_report())
    return ExecResult(
        returncode=None if timed_out else report.returncode,
        stdout=report.stdout,
        stderr=report.stderr,
        timed_out=timed_out,
        output_limit_exceeded=report.exceeded and not timed_out,
        oom_killed=report.out_of_memory,
        seconds=time.monotonic() - began,
    )


@dataclass(frozen=True)
class _Execution:
    shell: Shell
    line: CommandLine
    limits: RemoteLimits
    mark: str

    @property
    def folder(self) -> str:
        return f"{EXECUTIONS}/{self.mark}/"

    async def report(self, deadline: float | None) -> Report | None:
        """Begin it and wait for its end; ``None`` when time is up."""
        word = "begin"
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0 and word == "follow":
                return None
            wait = _LONGEST_WAIT_SECONDS if left is None else max(0.0, min(_LONGEST_WAIT_SECONDS, left))
            answer = await in_own_thread(functools.partial(self._ask, word, wait), f"exec-{self.mark}")
            if answer.words != ["running"]:
                return self._read(answer)
            word = "follow"

    async def stop(self) -> None:
        """End it and all it started; if it has not begun, it never will."""
        tenths = str(round(self.limits.grace_seconds * 10))
        seconds = self.limits.grace_seconds + _ENDING_SECONDS
        await in_own_thread(
            lambda: self.shell.ask("stop", self.folder, self.mark, tenths, script="end", seconds=seconds),
            f"stop-{self.mark}",
        )

    async def stopped_report(self) -> Report:
        """End it and tell what it has left."""
        await self.stop()
        answer = await self.shell.asked("follow", self.folder, "1000")
        if answer.words == ["running"]:
            raise RemoteShellError("a command that was ended does not come to its end")
        return self._read(answer)

    def _ask(self, word: str, seconds: float) -> Answer:
        budget = str(round(seconds * 100))
        if word == "follow":
            return self.shell.ask(word, self.folder, budget, seconds=seconds * 2)
        variables = self.line.environment("lease", self.limits)
        return self.shell.ask(
            word, self.folder, self.mark, budget, variables=variables, script="run", seconds=seconds * 2
        )

    def _read(self, answer: Answer) -> Report:
        """The report of the supervisor."""
        found = parsed_report(" ".join(answer.words))
        if found is None:
            raise RemoteShellError(f"the sandbox reports {' '.join(answer.words)[:200]!r} of a command")
        code, exceeded, killed, out, err = found
        cut = transferred(out)
        stdout = self._stream("out", answer.rest[:cut], out)
        return Report(code, bool(exceeded), bool(killed), stdout, self._stream("err", answer.rest[cut:], err))

    def _stream(self, name: str, data: bytes, size: int) -> Output:
        if len(data) != transferred(size):
            # Written to or removed while it was reported: what is there is all that can be told.
            return Output(head=data[:KEPT_BYTES], total_bytes=len(data), path=f"{self.folder}{name}")
        return output_of(data, size, f"{self.folder}{name}")
