"""Steps that end their workers are given up: a task that does that costs itself, not its run."""

from __future__ import annotations

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from ..contracts.activities import TRIED_TOO_OFTEN
from ..contracts.phases import ISSUE_PHASES, Phase
from .boundary import failed
from .classification import UNCLASSIFIED, make_issue
from .store import ExecutionStore

MOST_QUICK_TRIES = 2
"""For steps inside workflow tasks, which a server repeats without end. Fewer than the deaths in a row after which
a command starts no other worker (``cli/worker_process.py``)."""

MOST_BLOCKS = 2
"""How often a phase may block the event loop of its worker until that ends itself (``cli/serving/loop_guard.py``)."""


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


def refuse_blocking(execution: ExecutionStore, phase: Phase) -> None:
    """Raise the failure of a phase whose hooks have blocked their workers as often as they may.

    With each of them all other attempts of a worker lose a try.
    """
    count = execution.blocks(phase.value)
    if count < MOST_BLOCKS:
        return
    found = UNCLASSIFIED[phase]
    message = f"a hook blocked the event loop of its worker {count} times; hooks that block are to be declared @blocking"
    raise failed(make_issue(found.severity, ISSUE_PHASES[phase], found.code, f"{phase}: {message}"))
