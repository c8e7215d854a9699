"""Candidates that fail, cheat or misbehave, against a real Python process."""

from typing import Any

import pytest

from agentcompass.contracts import EnvironmentSession, StageFailure
from agentcompass.plugins.benchmarks.python_tests import CandidateProgram, Outcome, Verdict, run_python_tests

TESTS = "def check(f):\n    assert f(2) == 4\n    assert f(3) == 9, 'three'\n\ncheck(square)\n"


async def _run(env: EnvironmentSession, program: str, **options: Any) -> Verdict:
    return await run_python_tests(env, CandidateProgram(program=program, tests=TESTS, **options))


async def test_a_right_program_passes(host: EnvironmentSession) -> None:
    verdict = await _run(host, "def square(x):\n    print('squaring')\n    return x * x\n")
    assert verdict.outcome is Outcome.PASSED
    assert verdict.returncode == 0
    assert verdict.stdout == "squaring\nsquaring\n"
    assert verdict.stderr == ""


async def test_a_wrong_program_fails_with_the_assertion(host: EnvironmentSession) -> None:
    verdict = await _run(host, "def square(x):\n    return 2 * x\n")
    assert verdict.outcome is Outcome.ASSERTION
    assert verdict.detail == "AssertionError: three"
    assert "assert f(3) == 9, 'three'" in verdict.stderr


@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("def square(x):\n    return y\n", "NameError: name 'y' is not defined"),
        ("def square(x:\n", "SyntaxError: '(' was never closed"),
        ("", "NameError: name 'square' is not defined"),
        ("def square(x):\n    return input()\n", "EOFError: EOF when reading a line"),
        ("x = '\0'", "ValueError: source code string cannot contain null bytes"),
    ],
)
async def test_a_program_that_raises_fails_with_the_exception(
    host: EnvironmentSession, program: str, detail: str
) -> None:
    verdict = await _run(host, program)
    assert (verdict.outcome, verdict.detail) in [
        (Outcome.EXCEPTION, detail),
        (Outcome.EXCEPTION, "SyntaxError: source code string cannot contain null bytes"),  # Python 3.12
    ]


async def test_an_endless_program_fails_at_its_limit(host: EnvironmentSession) -> None:
    verdict = await _run(host, "def square(x):\n    while True: pass\n", timeout_seconds=1.5)
    assert verdict.outcome is Outcome.TIMEOUT
    assert verdict.returncode is None
    assert 1.5 <= verdict.seconds < 10


@pytest.mark.parametrize(
    "program",
    [
        "import sys; sys.exit(0)",
        "import os; os._exit(0)",
        "raise SystemExit",
        "def square(x):\n    import os; os._exit(0)",
        "def check(f): pass\nimport os; os._exit(0)",
        "import os; print('agentcompass: started'); print('0' * 32); os._exit(0)",
        "import os, sys\nprint(sys.argv, dict(os.environ)); sys.stdout.flush(); os._exit(0)",
        "import atexit, os\natexit.register(os._exit, 0)\ndef square(x): raise SystemExit(0)",
        "import sys; sys.exit(3)",
    ],
)
async def test_leaving_before_the_tests_end_is_no_success(host: EnvironmentSession, program: str) -> None:
    verdict = await _run(host, program)
    assert verdict.outcome is Outcome.EXITED_EARLY


@pytest.mark.parametrize(
    "program",
    [
        "def check(f): pass\ndef square(x): return 0",
        "import builtins\nbuiltins.AssertionError = type('Quiet', (Exception,), {})\ndef square(x): return 0",
        "import builtins\nbuiltins.exec = builtins.compile = print\ndef square(x): return 0",
        "import sys\nsys.excepthook = lambda *error: None\ndef square(x): return 0",
    ],
    ids=["own_check", "own_assertion_error", "no_exec", "quiet_hook"],
)
async def test_tampering_with_the_interpreter_is_no_success(host: EnvironmentSession, program: str) -> None:
    verdict = await _run(host, program)
    assert verdict.outcome is not Outcome.PASSED


async def test_threads_and_exit_hooks_do_not_follow_a_success(host: EnvironmentSession) -> None:
    program = (
        "import atexit, threading, time\n"
        "atexit.register(print, 'late')\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "def square(x): return x * x\n"
    )
    verdict = await _run(host, program)
    assert verdict.outcome is Outcome.PASSED
    assert verdict.seconds < 10


async def test_a_crash_of_the_interpreter_fails(host: EnvironmentSession) -> None:
    verdict = await _run(host, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert verdict.outcome is Outcome.CRASHED


async def test_memory_is_limited(host: EnvironmentSession) -> None:
    program = "def square(x):\n    return len(bytearray(2 << 30))\n"
    verdict = await _run(host, program, memory_limit_mb=512)
    assert (verdict.outcome, verdict.detail) == (Outcome.EXCEPTION, "MemoryError")


async def test_much_output_is_cut_and_does_not_hide_the_verdict(host: EnvironmentSession) -> None:
    program = "print('x' * 3_000_000)\ndef square(x): return x * x\n"
    verdict = await _run(host, program)
    assert verdict.outcome is Outcome.PASSED
    assert len(verdict.stdout) == 2000


async def test_dataclasses_and_main_guards_work_as_in_a_module(host: EnvironmentSession) -> None:
    program = (
        "from __future__ import annotations\n"
        "import dataclasses, pickle\n"
        "@dataclasses.dataclass\nclass Box:\n    value: int\n"
        "def square(x): return pickle.loads(pickle.dumps(Box(x * x))).value\n"
        "if __name__ == '__main__': raise RuntimeError\n"
    )
    assert (await _run(host, program)).outcome is Outcome.PASSED


async def test_files_in_the_work_directory_shadow_no_module(host: EnvironmentSession) -> None:
    await host.write(f"{host.workdir}/math.py", b"raise RuntimeError('shadow')")
    await host.write(f"{host.workdir}/types.py", b"raise RuntimeError('shadow')")
    verdict = await _run(host, "import math\ndef square(x): return int(math.pow(x, 2))\n")
    assert verdict.outcome is Outcome.PASSED


async def test_a_missing_interpreter_is_a_failure_of_the_environment(host: EnvironmentSession) -> None:
    with pytest.raises(StageFailure) as caught:
        await _run(host, "", python="python-that-is-not-there")
    assert caught.value.issue.severity == "fatal"
    assert caught.value.issue.code == "environment_failed"
    assert caught.value.issue.message.startswith(
        "'python-that-is-not-there' did not start in the environment: "
    )


async def test_an_interpreter_that_breaks_at_once_is_a_failure_of_the_environment(
    host: EnvironmentSession,
) -> None:
    with pytest.raises(StageFailure, match="'false' did not start in the environment: no output"):
        await _run(host, "", python="false")
