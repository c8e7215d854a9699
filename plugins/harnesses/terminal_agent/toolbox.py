"""Carrying out tool calls in the environment."""

from __future__ import annotations

import asyncio
import posixpath
import time
from collections.abc import Callable
from dataclasses import dataclass

from ....contracts.environment import EnvironmentSession, ProcessStatus
from ....contracts.result import ToolCall
from .params import TerminalAgentParams
from .state import Outcome
from .tools import Bash, CallProblem, Finish, Parsed, Read, Write, parse_call
from .truncation import head_and_tail, joined

_SHELL = 'if command -v bash >/dev/null 2>&1; then exec bash -c "$1" 2>&1; else exec sh -c "$1" 2>&1; fi'
"""Both streams in one, in the order in which they were written."""
_MAX_READ_BYTES = 16 * 1024 * 1024
_FIRST_PAUSE_SECONDS = 0.02
_LONGEST_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Toolbox:
    """Commands are detached processes whose ids follow from the turn: a worker that takes over finds
    the command that was running, or has ended meanwhile, and does not start it again."""

    env: EnvironmentSession
    params: TerminalAgentParams
    workdir: str
    prefix: str
    """Begins the ids of this execution's processes."""

    async def carry_out(
        self, call: ToolCall, number: str, seconds_left: Callable[[], float | None]
    ) -> Outcome:
        """The outcome of one call; what the model did wrong is told to it, not raised.

        ``number`` names the call within the execution.
        """
        try:
            parsed = parse_call(call)
            text = await self._text_of(parsed, number, seconds_left)
        except CallProblem as problem:
            return Outcome(call_id=call.id, text=f"Error: {problem}", valid=False)
        finish = parsed if isinstance(parsed, Finish) else None
        return Outcome(
            call_id=call.id,
            text=text,
            finished=finish is not None,
            answer=finish.answer if finish else None,
        )

    async def _text_of(self, parsed: Parsed, number: str, seconds_left: Callable[[], float | None]) -> str:
        match parsed:
            case Bash():
                return await self._bash(parsed, f"{self.prefix}-{number}", seconds_left)
            case Read():
                return await self._read(parsed)
            case Write():
                return await self._write(parsed)
            case Finish():
                return "Finished."

    async def _bash(self, call: Bash, process_id: str, seconds_left: Callable[[], float | None]) -> str:
        params = self.params
        limit = min(
            call.timeout_seconds or params.command_timeout_seconds, params.max_command_timeout_seconds
        )
        status = await self.env.start_process(
            process_id, ["sh", "-c", _SHELL, "sh", call.command], cwd=self.workdir
        )
        began = time.monotonic()
        pause = _FIRST_PAUSE_SECONDS
        timed_out = False
        while status.running:
            left = limit - (time.monotonic() - began)
            budget = seconds_left()
            if left <= 0 or (budget is not None and budget <= 0):
                timed_out = True
                await self.env.end_process(process_id)
                break
            await asyncio.sleep(min(pause, left, _LONGEST_PAUSE_SECONDS))
            pause *= 1.5
            status = await self._status(process_id) or status
        status = await self._status(process_id) or status
        output = await self._output(status)
        return f"{output}\n[{_ending(status, limit if timed_out else None)}]".lstrip("\n")

    async def _status(self, process_id: str) -> ProcessStatus | None:
        return await self.env.process_status(process_id)

    async def _output(self, status: ProcessStatus) -> str:
        limit, total = self.params.output_bytes, status.stdout_bytes
        half = limit if total <= limit else limit // 2
        head = await self._stream(status.process_id, 0, half)
        tail = b"" if total <= limit else await self._stream(status.process_id, total - half, half)
        return joined(head, tail, total).rstrip("\n")

    async def _stream(self, process_id: str, offset: int, size: int) -> bytes:
        """``size`` bytes from ``offset``; an environment may give them in pieces."""
        pieces = b""
        while len(pieces) < size:
            piece = await self.env.read_process_output(
                process_id, "stdout", offset + len(pieces), size - len(pieces)
            )
            if not piece:
                break
            pieces += piece
        return pieces

    async def _read(self, call: Read) -> str:
        try:
            data = await self.env.read(self._path(call.path), max_bytes=_MAX_READ_BYTES)
        except (OSError, ValueError) as problem:
            raise CallProblem(_file_problem(call.path, problem)) from None
        lines = data.splitlines(keepends=True)
        end = None if call.lines is None else call.first_line - 1 + call.lines
        wanted = b"".join(lines[call.first_line - 1 : end])
        if data and not wanted:
            return f"[{call.path} has {len(lines)} lines]"
        return head_and_tail(wanted, self.params.output_bytes) or f"[{call.path} is empty]"

    async def _write(self, call: Write) -> str:
        data = call.content.encode("utf-8", "replace")
        try:
            await self.env.write(self._path(call.path), data)
        except (OSError, ValueError) as problem:
            raise CallProblem(_file_problem(call.path, problem)) from None
        return f"Wrote {len(data)} bytes to {call.path}."

    def _path(self, path: str) -> str:
        return posixpath.join(self.workdir, path)


def _file_problem(path: str, problem: Exception) -> str:
    if isinstance(problem, OSError) and problem.strerror:
        return f"{path}: {problem.strerror}"
    if isinstance(problem, FileNotFoundError):
        return f"{path}: No such file"
    return f"{path}: {problem}"


def _ending(status: ProcessStatus, timed_out_after: float | None) -> str:
    if timed_out_after is not None:
        return f"ended: it ran longer than {timed_out_after:g} s, or the time for the task is used up"
    if status.output_limit_exceeded:
        return "ended: it wrote too much output"
    if status.returncode is None:
        return "it vanished without an exit status"
    if status.returncode < 0:
        return f"ended by signal {-status.returncode}"
    return f"exit status {status.returncode}"
