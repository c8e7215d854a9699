"""What ends a phase from outside: its budget, which waiting moves, or an operator."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from agentcompass.activities import phase_limit
from agentcompass.activities.context import PhaseContext
from agentcompass.activities.phase_limit import PhaseLimit
from agentcompass.activities.redaction import Redactor
from agentcompass.activities.store import ExecutionStore
from agentcompass.activities.store.writer import MaskingWriter
from agentcompass.contracts.activities import ExecutionRef, OperatorEnd
from agentcompass.contracts.phases import Phase

ENOUGH = OperatorEnd(phase="run_harness", reason="enough")


class Scope:
    """A phase as its limit sees it."""

    phase = Phase.RUN_HARNESS

    def __init__(self, folder: Path, *, quick: bool = False) -> None:
        self.quick = quick
        self.store = ExecutionStore(folder / "a1", 1, folder / "artifacts", folder, MaskingWriter(Redactor()))
        ref = ExecutionRef(run_dir=str(folder), task_index=0, task_id="t", attempt=1)
        self.context = PhaseContext(ref, Phase.RUN_HARNESS, self.store)

    def operator_end(self) -> OperatorEnd | None:
        return self.store.find_end()


@pytest.fixture
def scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scope:
    monkeypatch.setattr(phase_limit, "POLL_SECONDS", 0.01)
    return Scope(tmp_path)


async def test_an_expired_budget_is_no_decision(scope: Scope) -> None:
    limit = PhaseLimit(scope, 0.02)
    with pytest.raises(TimeoutError):
        async with limit:
            await asyncio.Event().wait()
    assert (limit.expired, limit.issue) == (True, None)


async def test_a_decision_ends_the_block_and_is_an_error_beside_what_is_left(scope: Scope) -> None:
    limit = PhaseLimit(scope, 3600)
    with pytest.raises(TimeoutError):
        async with limit:
            scope.store.save_end(ENOUGH)
            await asyncio.Event().wait()
    assert limit.expired is False
    assert limit.issue is not None
    assert limit.issue.model_dump() == {
        "severity": "error",
        "phase": "run",
        "code": "ended_by_operator",
        "message": "run_harness was ended by an operator: enough",
    }


async def test_a_disk_that_hangs_does_not_hold_up_the_event_loop(scope: Scope) -> None:
    limit, reading, let_go = PhaseLimit(scope, 3600), threading.Event(), threading.Event()

    def hang() -> OperatorEnd:
        reading.set()
        assert let_go.wait(60)
        return ENOUGH

    with pytest.raises(TimeoutError):
        async with limit:
            scope.operator_end = hang  # type: ignore[method-assign]
            assert await asyncio.to_thread(reading.wait, 60)
            let_go.set()  # only a loop that turns comes here
            await asyncio.Event().wait()
    assert limit.issue is not None


async def test_what_was_ended_before_does_not_begin(scope: Scope) -> None:
    scope.store.save_end(ENOUGH)
    limit = PhaseLimit(scope, None)
    with pytest.raises(TimeoutError):
        async with limit:
            pytest.fail("it began")
    assert limit.issue is not None


async def test_a_block_that_cannot_be_ended_does_not_look(scope: Scope) -> None:
    scope.store.save_end(ENOUGH)
    limit = PhaseLimit(scope, 3600, endable=False)
    async with limit:
        await asyncio.sleep(0.03)
    assert limit.issue is None


async def test_waiting_that_is_not_charged_moves_the_end(scope: Scope) -> None:
    limit = PhaseLimit(scope, scope.context.start_budget(0.2))
    async with limit:
        assert scope.context.wait_uncharged(30.0) == 30.0
        await asyncio.sleep(0.4)  # twice the budget
    assert limit.expired is False
    scope.context.stop_budget()
    assert scope.context.spent_seconds < 30


async def test_a_timeout_of_the_block_itself_is_neither(scope: Scope) -> None:
    limit = PhaseLimit(scope, 3600)
    with pytest.raises(TimeoutError, match="its own"):
        async with limit:
            raise TimeoutError("its own")
    assert (limit.expired, limit.issue) == (False, None)


async def test_a_decision_that_comes_after_the_end_of_the_budget_is_too_late(scope: Scope) -> None:
    limit = PhaseLimit(scope, 0.02)
    with pytest.raises(TimeoutError):
        async with limit:
            try:
                await asyncio.Event().wait()
            finally:
                scope.store.save_end(ENOUGH)
                await asyncio.sleep(0.05)
    assert (limit.expired, limit.issue) == (True, None)


@pytest.mark.parametrize(
    ("phase", "severity", "issue_phase", "code"),
    [
        (Phase.OPEN_ENVIRONMENT, "fatal", "setup", "environment_open_failed"),
        (Phase.PREPARE_TASK, "fatal", "setup", "setup_failed"),
        (Phase.START_HARNESS, "fatal", "setup", "harness_failed"),
        (Phase.RUN_HARNESS, "error", "run", "harness_timeout"),
        (Phase.RUN_TASK, "error", "run", "harness_timeout"),
        (Phase.EVALUATE, "error", "evaluate", "evaluation_timeout"),
    ],
)
async def test_a_quick_hook_without_a_budget_that_does_not_end_is_a_timeout_of_its_phase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: Phase, severity: str, issue_phase: str, code: str
) -> None:
    monkeypatch.setattr(phase_limit, "QUICK_SECONDS", 0.02)
    for budget in (None, 3600.0):
        limit = PhaseLimit(Scope(tmp_path, quick=True), budget, phase=phase)
        with pytest.raises(TimeoutError):
            async with limit:
                await asyncio.Event().wait()
        assert limit.overdue is not None
        assert limit.overdue.model_dump() == {
            "severity": severity,
            "phase": issue_phase,
            "code": code,
            "message": f"{phase} is declared quick (quick_hooks) and did not end within 0.02 s",
        }


async def test_a_smaller_budget_of_a_quick_hook_names_itself(tmp_path: Path) -> None:
    limit = PhaseLimit(Scope(tmp_path, quick=True), 0.02)
    with pytest.raises(TimeoutError):
        async with limit:
            await asyncio.Event().wait()
    assert (limit.expired, limit.overdue) == (True, None)


async def test_a_hook_that_is_not_quick_has_no_limit_but_its_budget(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(phase_limit, "QUICK_SECONDS", 0.0)
    limit = PhaseLimit(scope, None)
    async with limit:
        await asyncio.sleep(0.05)
    assert (limit.expired, limit.overdue) == (False, None)
