"""Which attempts a task still needs: one pure rule for the workflow and for the run store."""

from __future__ import annotations

from collections.abc import Sequence

from .activities import FinishedAttempt
from .request import AttemptsSpec, AttemptStrategy


def attempts_remaining(spec: AttemptsSpec, finished: Sequence[FinishedAttempt]) -> list[int]:
    """Attempt numbers still to run, in order; empty when the task is finished.

    ``pass`` stops at the first success. A FATAL attempt is no success, whatever it observed.
    """
    if spec.strategy is AttemptStrategy.PASS and any(item.success and not item.fatal for item in finished):
        return []
    done = {item.attempt for item in finished}
    return [number for number in range(1, spec.k + 1) if number not in done]
