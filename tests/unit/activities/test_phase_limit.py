"""What ends a phase from outside: its budget, which waiting moves, or an operator."""

from __future__ import annotations

import asyncio
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

    def __init__(self, folder: Path) -> None:
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
