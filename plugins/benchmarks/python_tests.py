"""Running a candidate program against its tests inside an environment."""

from __future__ import annotations

import secrets
import shlex
from enum import StrEnum
from pathlib import PurePosixPath

from pydantic import Field

from ...contracts.base import Contract
from ...contracts.environment import EnvironmentSession, ExecResult
from ...contracts.errors import StageFailure
from ...contracts.issues import IssueCode, IssuePhase

MAX_STREAM_CHARS = 2000
"""How much of each stream a verdict keeps, from its end."""

_STARTED = b"agentcompass: started\n"

# Reads the nonce before any foreign code exists and prints it only after the tests returned: a
# candidate that ends the process early, with whatever status, cannot print what it does not know.
# The nonce is in no argument, variable of the environment or file; input() of a candidate sees an
# end of file; os._exit keeps threads and exit hooks of the candidate from following the verdict.
_RUNNER = f"""\
import os, sys, types
def main(nonce, program, tests, memory_mb):
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if memory_mb:
        try:
            import resource
            resource.setrlimit(resource.RLIMIT_AS, (memory_mb << 20, memory_mb << 20))
        except (ImportError, ValueError, OSError):
            pass  # not every system can limit memory; the candidate then runs without the limit
    write, leave, compile_, exec_ = os.write, os._exit, compile, exec
    sources = []
    for path in (program, tests):
        with open(path, encoding="utf-8") as file:
            sources.append((file.read(), path))
    module = sys.modules["candidate"] = types.ModuleType("candidate")
    write(1, {_STARTED!r})
    for text, path in sources:
        exec_(compile_(text, path, "exec"), module.__dict__)
    write(1, b"\\n" + nonce + b"\\n")
    leave(0)
main(sys.stdin.buffer.read(32), sys.argv[1], sys.argv[2], int(sys.argv[3]))
"""


class Outcome(StrEnum):
    """How a test run ended; only ``passed`` is a success, all others are the candidate's doing."""

    PASSED = "passed"
    ASSERTION = "assertion"
    EXCEPTION = "exception"
    TIMEOUT = "timeout"
    EXITED_EARLY = "exited_early"
    CRASHED = "crashed"
    OUTPUT_LIMIT = "output_limit"


class Verdict(Contract):
    """The outcome with what people need to understand it; streams are cut to their last part."""

    outcome: Outcome
    detail: str = ""
    returncode: int | None = None
    seconds: float = 0.0
    stdout: str = ""
    stderr: str = ""


class CandidateProgram(Contract):
    """A candidate module and the test code that runs, and calls its checks, in the same namespace."""

    program: str
    tests: str
    python: str = "python3"
    """Command of the interpreter inside the environment."""
    timeout_seconds: float = Field(default=10.0, gt=0)
    memory_limit_mb: int | None = Field(default=None, gt=0)
    """Address space of the test process in MiB, where the system can limit it."""


async def run_python_tests(env: EnvironmentSession, test: CandidateProgram) -> Verdict:
    """Write program and tests into the environment and run them in a process of their own.

    The files stay, for a look at them. Raises ``StageFailure`` (``environment_failed``) when the
    interpreter itself did not start: that is nobody's wrong answer.
    """
    folder = PurePosixPath(env.workdir) / ".agentcompass" / "python_tests"
    program, tests = str(folder / "program.py"), str(folder / "tests.py")
    await env.write(program, test.program.encode("utf-8", errors="replace"))
    await env.write(tests, test.tests.encode("utf-8", errors="replace"))
    nonce = secrets.token_hex(16)
    # -I: nothing that was left in the work directory or in PYTHON* variables shadows a module.
    interpreter = [*shlex.split(test.python), "-I", "-u", "-c", _RUNNER]
    try:
        result = await env.exec(
            [*interpreter, program, tests, str(test.memory_limit_mb or 0)],
            timeout_seconds=test.timeout_seconds,
            stdin=nonce.encode(),
        )
    except FileNotFoundError as error:
        raise _not_started(test.python, str(error)) from error
    stdout = result.stdout.head + result.stdout.tail
    if not stdout.startswith(_STARTED):
        raise _not_started(test.python, result.stderr.text)
    passed = result.returncode == 0 and stdout.endswith(b"\n" + nonce.encode() + b"\n")
    return _verdict(result, passed, nonce)


def _verdict(result: ExecResult, passed: bool, nonce: str) -> Verdict:
    stderr = result.stderr.text.strip()
    outcome, detail = (Outcome.PASSED, "") if passed else _failure(result, stderr)
    stdout = result.stdout.text.removeprefix(_STARTED.decode()).removesuffix(f"\n{nonce}\n")
    return Verdict(
        outcome=outcome,
        detail=detail,
        returncode=result.returncode,
        seconds=round(result.seconds, 3),
        stdout=stdout[-MAX_STREAM_CHARS:],
        stderr=stderr[-MAX_STREAM_CHARS:],
    )


def _failure(result: ExecResult, stderr: str) -> tuple[Outcome, str]:
    last_line = stderr.rpartition("\n")[2][:500]
    if result.timed_out:
        return Outcome.TIMEOUT, "the tests did not end within their limit"
    if result.output_limit_exceeded:
        return Outcome.OUTPUT_LIMIT, "the program wrote more than the environment allows"
    if result.returncode is None or result.returncode < 0 or result.returncode >= 128:
        return Outcome.CRASHED, f"the process died with status {result.returncode}"
    if result.returncode == 1 and last_line.startswith("AssertionError"):
        return Outcome.ASSERTION, last_line
    if result.returncode == 1 and "Traceback (most recent call last)" in stderr:
        return Outcome.EXCEPTION, last_line
    return Outcome.EXITED_EARLY, f"the program left with status {result.returncode} before its tests ended"


def _not_started(python: str, reason: str) -> StageFailure:
    message = f"{python!r} did not start in the environment: {reason.strip()[-300:] or 'no output'}"
    return StageFailure.fatal(IssuePhase.EVALUATE, IssueCode.ENVIRONMENT_FAILED, message)
