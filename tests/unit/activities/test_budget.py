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
from agentcompass.contracts.phases import Phase

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
