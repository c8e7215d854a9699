"""Why a request starts nothing: an operator's word, or an endpoint that refuses its account.

In a launch of several requests the launch decides about endpoints, so that all requests of one stand still and go on
together (``contracts/endpoints.py``). A request by itself, and one whose endpoint is not known, decides alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from ..contracts.endpoints import EndpointState, EndpointView, Refusal
    from ..contracts.workflows import ENDPOINT_SIGNAL, ParkedAttempt, RequestInput
    from .calls import in_background
    from .signals import model_of, models_of, text_of


class Pause:
    """A request's pauses. Those of an operator and those of endpoints end independently."""

    def __init__(self, input: RequestInput, changed: Callable[[], None]) -> None:
        """``changed`` is called whenever something has become otherwise, or the launch has been told."""
        self._input = input
        self._changed = changed
        state = input.state
        self._by_operator = state.paused if state else ""
        self._view = EndpointView(state.endpoints if state else input.endpoint_states)
        self._reports: deque[EndpointState] = deque()
        self._sending = False

    @property
    def reason(self) -> str:
        """For people; empty when the request may start attempts."""
        return "; ".join(
            [*filter(None, [self._by_operator]), *(self._told(item) for item in self._view.refusals)]
        )

    @property
    def settled(self) -> bool:
        """True when the launch has heard all. Until then no slot goes back: a request of the same endpoint might get it."""
        return not self._sending and not self._reports

    def state(self) -> dict[str, object]:
        """What ``continue_as_new`` carries over."""
        return {"paused": self._by_operator, "endpoints": self._view.states}

    def by_operator(self, arguments: Sequence[object]) -> None:
        """``reason``: start nothing until ``resume``."""
        self._by_operator = text_of(arguments, default="paused by an operator")
        self._changed()

    def refused(self, attempt: ParkedAttempt) -> None:
        """An attempt was refused: all others would be, too."""
        endpoint = self._input.endpoints.refused_with(attempt.code)
        name = attempt.workflow_id.removeprefix(f"{workflow.info().workflow_id}/")[:200]
        refusal = Refusal(request=self._input.request_key, attempt=name, message=attempt.message)
        report = self._view.refuse(endpoint, refusal)
        if report is not None:
            self._tell(report)
        self._changed()

    def hear(self, arguments: Sequence[object]) -> None:
        """``EndpointState``: what the launch decided about an endpoint."""
        decision = model_of(EndpointState, arguments)
        if decision is not None:
            self._take(decision)
            self._changed()

    def resume(self, arguments: Sequence[object]) -> None:
        """Go on. ``EndpointState``s come along from the launch; an operator who asks this request alone sends none.

        What the launch has not decided yet, it is asked to: then all requests of that endpoint go on.
        """
        self._by_operator = ""
        decided = models_of(EndpointState, arguments)
        for decision in decided or []:
            self._take(decision)
        for report in self._view.mend(decided):
            self._tell(report)
        self._changed()

    def _take(self, decision: EndpointState) -> None:
        if decision.endpoint in self._input.endpoints.ids:  # signals come from people, too
            self._view.hear(decision)

    def _told(self, refusal: Refusal) -> str:
        own = refusal.request == self._input.request_key
        other = (
            f"met by {refusal.attempt} of request {refusal.request}, at an endpoint that this one uses, too; "
        )
        return (
            f"{refusal.message} ({'' if own else other}no other attempt is started; mend it, "
            f"then: agentcompass resume {self._input.launch_id})"
        )

    def _tell(self, report: EndpointState) -> None:
        """One after the other, or the launch might hear of the mending before it hears of the refusal."""
        self._reports.append(report)
        if not self._sending:
            self._sending = True
            in_background(self._send())

    async def _send(self) -> None:
        try:
            while self._reports:
                report = self._reports.popleft()
                if not await self._reaches_launch(report) and report.refusal is None:
                    self._view.forget(report.endpoint)  # nobody else will say that it is mended
        finally:  # an assignment only: harmless when Python throws a dropped workflow away
            self._sending = False
        self._changed()

    async def _reaches_launch(self, report: EndpointState) -> bool:
        parent = workflow.info().parent
        if parent is None:
            return False
        try:
            handle = workflow.get_external_workflow_handle(parent.workflow_id)
            await handle.signal(ENDPOINT_SIGNAL, args=[self._input.request_key, report])
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            # The launch is over, or was terminated: this request ends with it, or finds out by itself.
            workflow.logger.info("the launch took no news of an endpoint: %s", error)
            return False
        return True
