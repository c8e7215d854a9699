"""What is charged to a budget: the time in which the phase ran, in whichever process."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from agentcompass.activities.context import PhaseContext
from agentcompass.activities.redaction import Redactor
from agentcompass.activities.store import ExecutionStore
from agentcompass.activities.store.writer import MaskingWriter
from agentcompass.contracts.activities import ExecutionRef
from agentcompass.contracts.issues import IssuePhase, Severity
from agentcompass.contracts.phases import Phase
from agentcompass.contracts.result import TrajectoryStep

NEAR = 0.5
"""Seconds that a slow machine may take between two lines."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic time in seconds, which stands still until the test moves it."""
    now = [1000.0]
    monkeypatch.setattr("agentcompass.activities.context.time.monotonic", lambda: now[0])
    return now


def context(tmp_path: Path, spent: float = 0.0) -> PhaseContext:
    store = ExecutionStore(tmp_path / "a", 1, tmp_path / "artifacts", tmp_path, MaskingWriter(Redactor()))
    ref = ExecutionRef(run_dir=str(tmp_path), task_index=0, task_id="t", attempt=1)
    return PhaseContext(ref, Phase.RUN_HARNESS, store, spent_seconds=spent)


def test_nothing_is_charged_before_the_budget_begins(tmp_path: Path, clock: list[float]) -> None:
    found = context(tmp_path, spent=7.0)
    clock[0] += 100
    assert (found.spent_seconds, found.deadline, found.remaining()) == (7.0, None, None)


def test_a_phase_that_goes_on_elsewhere_gets_what_is_left(tmp_path: Path, clock: list[float]) -> None:
    found = context(tmp_path, spent=40.0)
    assert found.start_budget(60.0) == 20.0
    assert found.deadline is not None
    assert abs(found.deadline - time.time() - 20) < NEAR
    clock[0] += 5
    assert found.spent_seconds == 45.0


def test_a_budget_that_was_used_up_stays_used_up(tmp_path: Path, clock: list[float]) -> None:
    assert context(tmp_path, spent=90.0).start_budget(60.0) == 0.0


def test_a_phase_that_begins_anew_gets_all_of_it(tmp_path: Path, clock: list[float]) -> None:
    found = context(tmp_path, spent=59.0)
    assert found.start_budget(60.0, resumed=False) == 60.0
    clock[0] += 1
    assert found.spent_seconds == 1.0


def test_what_follows_the_agent_is_not_charged_and_has_a_deadline_of_its_own(
    tmp_path: Path, clock: list[float]
) -> None:
    found = context(tmp_path)
    found.start_budget(60.0)
    clock[0] += 59
    found.stop_budget(30.0)
    clock[0] += 25
    assert found.spent_seconds == 59.0
    assert found.deadline is not None
    assert abs(found.deadline - time.time() - 30) < NEAR


def test_without_a_budget_there_is_no_deadline_but_the_time_is_kept(
    tmp_path: Path, clock: list[float]
) -> None:
    found = context(tmp_path, spent=1.0)
    assert found.start_budget(None) is None
    clock[0] += 2
    assert (found.deadline, found.remaining(), found.spent_seconds) == (None, None, 3.0)


def test_waiting_for_a_rate_limit_is_not_charged(tmp_path: Path, clock: list[float]) -> None:
    found = context(tmp_path)
    found.start_budget(60.0)
    before = found.deadline
    assert found.wait_uncharged(20.0) == 20.0
    assert found.deadline is not None and before is not None
    assert found.deadline - before == pytest.approx(20.0)
    clock[0] += 25
    assert found.spent_seconds == 5.0


def test_calls_that_wait_at_the_same_time_wait_once(tmp_path: Path, clock: list[float]) -> None:
    found = context(tmp_path)
    found.start_budget(60.0)
    assert [found.wait_uncharged(20.0), found.wait_uncharged(10.0), found.wait_uncharged(25.0)] == [
        20,
        10,
        25,
    ]
    clock[0] += 25
    assert found.spent_seconds == 0.0
    clock[0] += 5
    assert found.wait_uncharged(5.0) == 5.0
    clock[0] += 5
    assert found.spent_seconds == 5.0


def test_waiting_beyond_an_hour_is_charged_after_all(tmp_path: Path, clock: list[float]) -> None:
    found = context(tmp_path)
    found.start_budget(60.0)
    assert found.wait_uncharged(3000.0) == 3000.0
    clock[0] += 3000
    assert found.wait_uncharged(3000.0) == 600.0
    clock[0] += 3000
    assert found.wait_uncharged(1.0) == 0.0
    assert found.spent_seconds == 2400.0


def test_nothing_is_uncharged_while_nothing_is_charged(tmp_path: Path, clock: list[float]) -> None:
    found = context(tmp_path)
    assert found.wait_uncharged(5.0) == 0.0
    found.start_budget(60.0)
    found.stop_budget(30.0)
    assert found.wait_uncharged(5.0) == 0.0
    assert found.spent_seconds == 0.0


def test_a_phase_that_is_over_takes_nothing_more(tmp_path: Path) -> None:
    found = context(tmp_path)
    found.close()
    with pytest.raises(RuntimeError, match="run_harness of task 't' is over"):
        found.record_step(TrajectoryStep(step_id=1, source="agent"))
    with pytest.raises(RuntimeError):
        found.report_issue(Severity.WARNING, IssuePhase.RUN, "x", "late")


def test_of_a_message_in_many_lines_the_rest_is_in_the_diagnostics(tmp_path: Path) -> None:
    found = context(tmp_path)
    found.report_issue(Severity.WARNING, IssuePhase.RUN, "acme.odd", "3 tests failed\n  test_a\n  test_b")
    found.report_issue(Severity.WARNING, IssuePhase.RUN, "acme.odd", "one line")
    assert [issue.message for issue in found.issues] == ["3 tests failed", "one line"]
    store = ExecutionStore(tmp_path / "a", 1, tmp_path / "artifacts", tmp_path, MaskingWriter(Redactor()))
    assert store.diagnostics() == "acme.odd: 3 tests failed\n  test_a\n  test_b"
