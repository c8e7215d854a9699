"""A request that is over, as ``status`` shows it."""

from __future__ import annotations

from agentcompass.contracts.launch import RequestResult

RESULT = RequestResult(
    key="r",
    run_dir="/results/r/1",
    status="failed",
    total_tasks=12,
    evaluated_tasks=7,
    unavailable_tasks=1,
    invalidated_tasks=4,
    error_tasks=6,
    warning_tasks=3,
    error="4 of 12 tasks ended with a fatal issue",
)


def test_failed_tasks_are_counted_and_not_once_more_as_errors() -> None:
    found = RESULT.as_status()
    assert (found.failed_tasks, found.error_tasks, found.warning_tasks) == (4, 2, 3)


def test_a_cancelled_request_has_not_finished_the_tasks_that_did_not_run() -> None:
    cancelled = RESULT.model_copy(
        update={"status": "cancelled", "unavailable_tasks": 9, "invalidated_tasks": 0, "reused_tasks": 2}
    )
    found = cancelled.as_status()
    assert (found.finished_tasks, found.reused_tasks, found.total_tasks) == (1, 2, 12)


def test_tasks_of_a_completed_request_are_finished_also_without_a_score() -> None:
    found = RESULT.model_copy(update={"status": "completed", "invalidated_tasks": 0}).as_status()
    assert found.finished_tasks == 12
