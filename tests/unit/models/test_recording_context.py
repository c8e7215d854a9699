"""The context for extension authors behaves like the one in a run."""

from __future__ import annotations

import time

import pytest

from agentcompass.contracts import IssuePhase, Severity, StageFailure, TrajectoryStep
from agentcompass.plugins.testing import RecordingContext


async def test_of_a_crash_only_the_checkpoint_is_left() -> None:
    context = RecordingContext("t", attempt=2, execution=3, secrets={"env:K": "v"})
    context.record_step(TrajectoryStep(step_id=1, source="agent"))
    await context.save_checkpoint({"turn": 1})
    fresh = context.restarted()
    assert await fresh.load_checkpoint() == {"turn": 1}
    assert (fresh.task_id, fresh.attempt, fresh.execution, fresh.steps) == ("t", 2, 3, [])
    assert fresh.resolve_secret("env:K") == "v"


async def test_a_checkpoint_is_a_copy() -> None:
    context = RecordingContext()
    state = {"turns": [1]}
    await context.save_checkpoint(state)  # type: ignore[arg-type]
    state["turns"].append(2)
    assert await context.load_checkpoint() == {"turns": [1]}


async def test_a_checkpoint_that_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError):
        await RecordingContext().save_checkpoint({"o": object()})  # type: ignore[dict-item]


def test_an_unknown_secret_fails_as_on_a_worker() -> None:
    assert RecordingContext().resolve_secret("") == ""
    with pytest.raises(StageFailure, match="env:NOPE") as caught:
        RecordingContext().resolve_secret("env:NOPE")
    assert caught.value.issue.code == "secret_unavailable"


def test_remaining_is_never_negative() -> None:
    assert RecordingContext().remaining() is None
    assert RecordingContext(deadline=time.time() - 5).remaining() == 0.0


def test_what_is_reported_can_be_looked_at() -> None:
    context = RecordingContext()
    context.progress("building")
    context.report_issue(Severity.WARNING, IssuePhase.COLLECT, "artifact_missing", "no report.md")
    assert context.messages == ["building"]
    assert [(issue.code, issue.message) for issue in context.issues] == [("artifact_missing", "no report.md")]
