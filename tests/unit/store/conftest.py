"""A reserved run directory and small records to put into it."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcompass.activities.redaction import Redactor
from agentcompass.activities.store import DriverRecord, RunStore
from agentcompass.contracts import (
    BenchmarkSpec,
    EnvironmentSpec,
    HarnessSpec,
    Issue,
    IssuePhase,
    ModelSpec,
    RunRequest,
    Severity,
    TaskStatus,
)
from agentcompass.contracts.records import AttemptCheckpoint, AttemptRecord

MakeAttempt = Callable[..., AttemptCheckpoint]


@pytest.fixture
def owner() -> DriverRecord:
    return DriverRecord(launch_id="launch-1", request_key="0-one", host="host-a", reserved_at="2026-01-02")


@pytest.fixture
def redactor() -> Redactor:
    return Redactor()


@pytest.fixture
def store(tmp_path: Path, owner: DriverRecord, redactor: Redactor) -> RunStore:
    return RunStore.reserve(tmp_path / "results" / "m_b_h" / "run1", owner=owner, redactor=redactor)


@pytest.fixture
def request_one() -> RunRequest:
    return RunRequest(
        benchmark=BenchmarkSpec(id="bench"),
        harness=HarnessSpec(id="harness"),
        environment=EnvironmentSpec(id="host_process"),
        model=ModelSpec(id="org/model", api_key="env:KEY"),
    )


@pytest.fixture
def attempt() -> MakeAttempt:
    """``attempt("q1", 2, correct=False, severity=Severity.FATAL)`` is a finished second attempt."""

    def make(
        task_id: str,
        number: int = 1,
        *,
        correct: bool | None = True,
        severity: Severity | None = None,
        retry_count: int = 0,
    ) -> AttemptCheckpoint:
        issue = Issue(severity=severity, phase=IssuePhase.RUN, code="c", message="m") if severity else None
        return AttemptCheckpoint(
            task_id=task_id,
            category="math",
            ground_truth={"answer": 4},
            attempt=number,
            retry_count=retry_count,
            record=AttemptRecord(
                status=TaskStatus.RUN_ERROR if issue else TaskStatus.COMPLETED,
                metrics={} if correct is None else {"correct": correct},
                final_answer=f"answer {number}",
                issues=[issue] if issue else [],
            ),
        )

    return make


def kill_at_step(step: int, action: Callable[[], object]) -> bool:
    """Run ``action`` in a forked process that is killed at its nth change of the file system.

    True when it was killed, False when it ended before.
    """
    pid = os.fork()
    if pid == 0:
        left = [step]

        def count(event: str, _args: object) -> None:
            if event in ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "open"):
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        code = 1
        try:
            sys.addaudithook(count)
            action()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


@pytest.fixture
def killed_at_step() -> Callable[[int, Callable[[], object]], bool]:
    """``killed_at_step(n, action)``: see :func:`kill_at_step`."""
    return kill_at_step
