"""Tokens, cost and latency, record by record."""

from __future__ import annotations

from collections.abc import Iterator

from agentcompass.activities.metrics import total_usage
from agentcompass.contracts.metrics import Tally, UsageTotals
from agentcompass.contracts.records import AttemptRecord, TaskRecord
from agentcompass.contracts.request import AttemptsSpec
from agentcompass.contracts.result import TaskStatus, Trajectory, TrajectoryStep, Usage


def record(*attempts: list[TrajectoryStep] | None) -> TaskRecord:
    return TaskRecord(
        task_id="t",
        attempt_plan=AttemptsSpec(k=max(1, len(attempts))),
        attempts={
            str(number): AttemptRecord(
                status=TaskStatus.COMPLETED,
                issues=[],
                trajectory=None if steps is None else Trajectory(steps=steps),
            )
            for number, steps in enumerate(attempts, start=1)
        },
    )


USER = TrajectoryStep(step_id=1, source="user", message="hi")


def test_totals_cover_all_attempts_and_say_how_many_calls_reported() -> None:
    reported = TrajectoryStep(
        step_id=2,
        source="agent",
        usage=Usage(prompt_tokens=100, completion_tokens=20, cached_tokens=60),
        latency_seconds=1.5,
        cost_usd=0.25,
    )
    slow = TrajectoryStep(step_id=3, source="agent", usage=Usage(prompt_tokens=50), latency_seconds=4.0)
    no_call = TrajectoryStep(step_id=1, source="agent", latency_seconds=2.0)

    def stream() -> Iterator[TaskRecord]:
        yield record([USER, reported, slow], None)
        yield record([no_call])

    assert total_usage(stream()) == UsageTotals(
        attempts=3,
        steps=4,
        calls=2,
        prompt_tokens=Tally(total=150, calls=2),
        completion_tokens=Tally(total=20, calls=1),
        cached_tokens=Tally(total=60, calls=1),
        cost_usd=Tally(total=0.25, calls=1),
        latency_seconds=Tally(total=5.5, calls=2),
        max_latency_seconds=4.0,
    )


def test_amounts_that_are_none_do_not_spoil_the_totals() -> None:
    odd = TrajectoryStep(
        step_id=1,
        source="agent",
        usage=Usage(prompt_tokens=-5),
        latency_seconds=float("nan"),
        cost_usd=float("inf"),
    )
    totals = total_usage([record([odd])])
    assert (totals.calls, totals.prompt_tokens, totals.cost_usd, totals.latency_seconds) == (
        1,
        Tally(),
        Tally(),
        Tally(),
    )


def test_a_run_without_trajectories_has_empty_totals() -> None:
    assert total_usage([record(None)]) == UsageTotals(attempts=1)
