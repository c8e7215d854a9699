"""Quick steps run inside workflow tasks, which a server repeats without end when their worker dies."""

from __future__ import annotations

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from ..contracts.activities import TRIED_TOO_OFTEN
from .store import ExecutionStore

MOST_QUICK_TRIES = 2
"""Fewer than the deaths in a row after which a command starts no other worker (``cli/worker_process.py``)."""


def count_quick_try(execution: ExecutionStore, step: str) -> None:
    """Note that ``step`` is begun inside a workflow task.

    Raises ``ApplicationError`` when that was done before as often as it may be: a step that takes its worker along
    must cost its own task only, so the workflow makes it an activity, which is given up some time.
    """
    if not activity.info().is_local or execution.count_try(step) <= MOST_QUICK_TRIES:
        return
    raise ApplicationError(
        f"{step} was begun {MOST_QUICK_TRIES} times inside a workflow task and did not end",
        type=TRIED_TOO_OFTEN,
        non_retryable=True,
        category=ApplicationErrorCategory.BENIGN,
    )
