"""The circuit breaker of a launch: which endpoint, with which account, its requests depend on, and which refuse it. Pure.

The two sides talk by numbered messages. A request tells its launch that an endpoint refused the account, or that an
operator says that this is mended; the launch decides, counts its decisions, and tells every request of that endpoint.
All three are an :class:`EndpointState`. A message that was overtaken by a later decision is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pydantic import Field

from .base import Contract
from .issues import IssueCode


class RequestEndpoints(Contract):
    """The endpoints of a request, by the names that ``plugins/models/endpoint.py`` gives them; empty where there is none, or where it is not known."""

    model: str = ""
    judge: str = ""
    """Of the only judge; a benchmark that calls several models does not say which of them was refused."""

    @property
    def ids(self) -> frozenset[str]:
        """Those that are known."""
        return frozenset({self.model, self.judge} - {""})

    def refused_with(self, code: str) -> str:
        """The endpoint that an issue with this code comes from; empty when that cannot be told."""
        if code == IssueCode.JUDGE_REFUSED:
            return self.judge
        return self.model if code in (IssueCode.MODEL_AUTHENTICATION, IssueCode.MODEL_QUOTA) else ""


class Refusal(Contract):
    """What an endpoint said, and to whom."""

    request: str
    """Key of the request whose attempt met it."""
    attempt: str = ""
    """``<task>/a<n>``."""
    message: str = ""


class EndpointState(Contract):
    """Whether an endpoint refuses its account."""

    endpoint: str
    number: int = Field(default=0, ge=0)
    """Decisions of the launch on this endpoint so far, as the sender knows them."""
    refusal: Refusal | None = None
    """``None`` when nothing is wrong, as far as it is known."""


class Breakers:
    """The launch's side: decides."""

    def __init__(self, states: Iterable[EndpointState] = ()) -> None:
        self._states = {state.endpoint: state for state in states}

    @property
    def states(self) -> list[EndpointState]:
        """All on which there was a decision."""
        return list(self._states.values())

    def of(self, endpoints: RequestEndpoints) -> list[EndpointState]:
        """Those of a request, mended ones included: it has to know their numbers."""
        return [state for state in self._states.values() if state.endpoint in endpoints.ids]

    def refusal_for(self, endpoints: RequestEndpoints) -> Refusal | None:
        """Why a request must not start anything; ``None`` when it may."""
        return next((state.refusal for state in self.of(endpoints) if state.refusal is not None), None)

    def hear(self, report: EndpointState) -> EndpointState | None:
        """What a request reports; the new decision, or ``None`` when that changes nothing.

        A refusal of which the reporting request did not know yet that the endpoint is mended is old news.
        """
        known = self._states.get(report.endpoint, EndpointState(endpoint=report.endpoint))
        if (report.refusal is None) == (known.refusal is None):
            return None
        if report.refusal is not None and report.number < known.number:
            return None
        return self._decide(known, report.refusal)

    def close(self) -> bool:
        """Everything is mended, says an operator. False when nothing was refused."""
        open_ones = [state for state in self._states.values() if state.refusal is not None]
        for state in open_ones:
            self._decide(state, None)
        return bool(open_ones)

    def _decide(self, known: EndpointState, refusal: Refusal | None) -> EndpointState:
        decided = EndpointState(endpoint=known.endpoint, number=known.number + 1, refusal=refusal)
        self._states[known.endpoint] = decided
        return decided


class EndpointView:
    """A request's side: what it knows of its endpoints. The endpoint ``""`` is one that the launch does not know."""

    def __init__(self, states: Iterable[EndpointState] = ()) -> None:
        self._states = {state.endpoint: state for state in states}

    @property
    def states(self) -> list[EndpointState]:
        """All of which something was heard."""
        return list(self._states.values())

    @property
    def refusals(self) -> list[Refusal]:
        """Why nothing is started."""
        return [state.refusal for state in self._states.values() if state.refusal is not None]

    def refuse(self, endpoint: str, refusal: Refusal) -> EndpointState | None:
        """An attempt was refused; what the launch has to hear, if it has not heard it."""
        known = self._states.get(endpoint, EndpointState(endpoint=endpoint))
        if known.refusal is not None and endpoint:
            return None
        self._states[endpoint] = known.model_copy(update={"refusal": refusal})
        return self._states[endpoint] if endpoint else None

    def hear(self, decision: EndpointState) -> None:
        """What the launch decided; one that was overtaken is dropped."""
        known = self._states.get(decision.endpoint)
        if known is None or decision.number > known.number:
            self._states[decision.endpoint] = decision

    def mend(self, decided: Sequence[EndpointState] | None = None) -> list[EndpointState]:
        """An operator says that all is mended: what the launch has to hear, which then decides.

        ``decided`` is what the launch knew when the operator said it to the launch. What it decided later stands, also
        when that came earlier.
        """
        self._states.pop("", None)
        known = None if decided is None else {state.endpoint: state.number for state in decided}
        return [
            state.model_copy(update={"refusal": None})
            for state in self._states.values()
            if state.refusal is not None and (known is None or state.number <= known.get(state.endpoint, 0))
        ]

    def forget(self, endpoint: str) -> None:
        """There is no launch that could decide."""
        self._states.pop(endpoint, None)
