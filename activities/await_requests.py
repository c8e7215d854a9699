"""Wait for request workflows that an earlier run of a launch workflow started."""

from __future__ import annotations

from temporalio import activity
from temporalio.exceptions import ApplicationError, FailureError

from ..contracts.activities import AWAIT_REQUESTS
from ..contracts.launch import RequestResult
from ..contracts.launch_state import AwaitedRequest, AwaitedRequests, AwaitRequestsInput
from .awaiting import POLL_SECONDS, Ended, some_that_ended
from .boundary import activity_boundary
from .services import Services

_MESSAGE_CHARS = 4000


class AwaitRequests:
    """Looks only; running it twice is safe."""

    def __init__(self, services: Services, poll_seconds: float = POLL_SECONDS) -> None:
        self._services = services
        self._poll_seconds = poll_seconds

    @activity.defn(name=AWAIT_REQUESTS.name)
    @activity_boundary
    async def await_requests(self, input: AwaitRequestsInput) -> AwaitedRequests:
        """Return as soon as at least one of them is over, with all that are."""
        client = self._services.client
        ended = await some_that_ended(client, input.workflow_ids, RequestResult, self._poll_seconds)
        return AwaitedRequests(ended=[_awaited(item) for item in ended])


def _awaited(item: Ended[RequestResult]) -> AwaitedRequest:
    if item.result is not None:
        return AwaitedRequest(workflow_id=item.workflow_id, result=item.result)
    if item.cause is None:
        return AwaitedRequest(workflow_id=item.workflow_id, failure="the request's workflow is gone")
    cause = item.cause
    while isinstance(cause, FailureError) and cause.cause is not None:
        cause = cause.cause
    refused = isinstance(cause, ApplicationError) and cause.details and isinstance(cause.details[0], int)
    return AwaitedRequest(
        workflow_id=item.workflow_id,
        failure=(cause.message if isinstance(cause, FailureError) else str(cause))[:_MESSAGE_CHARS],
        # The exit code that a request carries which could not be prepared, see boundary.py.
        exit_code=cause.details[0] if refused and isinstance(cause, ApplicationError) else 1,
    )
