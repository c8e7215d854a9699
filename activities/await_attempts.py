"""Wait for attempt workflows that an earlier run of a request workflow started."""

from __future__ import annotations

from temporalio import activity
from temporalio.exceptions import is_cancelled_exception

from ..contracts.activities import (
    AWAIT_ATTEMPTS,
    AttemptOutcome,
    AwaitAttemptsInput,
    AwaitedAttempt,
    AwaitedAttempts,
)
from .awaiting import POLL_SECONDS, Ended, some_that_ended
from .boundary import activity_boundary
from .services import Services


class AwaitAttempts:
    """Looks only; running it twice is safe."""

    def __init__(self, services: Services, poll_seconds: float = POLL_SECONDS) -> None:
        self._services = services
        self._poll_seconds = poll_seconds

    @activity.defn(name=AWAIT_ATTEMPTS.name)
    @activity_boundary
    async def await_attempts(self, input: AwaitAttemptsInput) -> AwaitedAttempts:
        """Return as soon as at least one of them is over, with all that are."""
        client = self._services.client
        ended = await some_that_ended(client, input.workflow_ids, AttemptOutcome, self._poll_seconds)
        return AwaitedAttempts(ended=[_awaited(item) for item in ended])


def _awaited(item: Ended[AttemptOutcome]) -> AwaitedAttempt:
    if item.result is not None:
        return AwaitedAttempt(workflow_id=item.workflow_id, outcome=item.result)
    if item.cause is None:
        return AwaitedAttempt(workflow_id=item.workflow_id, failure="the attempt's workflow is gone")
    return AwaitedAttempt(
        workflow_id=item.workflow_id,
        failure=str(item.cause)[:1000],
        cancelled=is_cancelled_exception(item.cause),
    )
