"""What every model client offers: one call, one answer, one kind of failure."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from pydantic import Field, JsonValue

from ...contracts.base import Contract
from ...contracts.errors import StageFailure
from ...contracts.issues import Issue, IssueCode, IssuePhase, Severity
from ...contracts.result import ToolCall, Usage
from ...contracts.task import Message, ToolDefinition
from .params import ModelParams


class ModelResponse(Contract):
    """The answer of a model to one call.

    ``stop_reason`` uses one vocabulary for all protocols: ``stop``, ``length``, ``tool_calls``,
    ``content_filter``; a reason outside of it is kept as the endpoint wrote it. The endpoint's own
    word is always in ``extra["raw_stop_reason"]``.
    """

    content: str = ""
    reasoning: str | None = None
    tool_calls: list[ToolCall] = Field(default_factory=list)
    reasoning_parts: list[dict[str, JsonValue]] = Field(default_factory=list)
    """For :meth:`as_message`: what the protocol wants back unchanged, as it came."""
    usage: Usage = Field(default_factory=Usage)
    stop_reason: str | None = None
    model: str = ""
    """The model that answered, as the endpoint names it; the requested id when it says nothing."""
    latency_seconds: float = Field(default=0.0, ge=0)
    """Duration of the HTTP request that succeeded, without earlier tries and waits."""
    response_id: str = ""
    attempts: int = Field(default=1, ge=1)
    """HTTP requests that were sent to get this answer."""
    cost_usd: float | None = None
    """As reported by the endpoint; never computed here."""
    extra: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True without text and without a tool call: nothing that could be judged."""
        return not self.content.strip() and not self.tool_calls

    def as_message(self) -> Message:
        """The answer as a message of the conversation, to go on from."""
        return Message(
            role="assistant",
            content=self.content,
            tool_calls=[call.model_dump(mode="json") for call in self.tool_calls] or None,
            reasoning_parts=self.reasoning_parts,
        )

    def empty_output_issue(self, phase: IssuePhase = IssuePhase.RUN) -> Issue:
        """The ``model_empty_output`` issue for this response; an error, not fatal."""
        why = {
            "length": "it reached its token limit first",
            "content_filter": "a content filter stopped it",
        }.get(self.stop_reason or "", f"stop reason {self.stop_reason or 'not given'}")
        return Issue(
            severity=Severity.ERROR,
            phase=phase,
            code=IssueCode.MODEL_EMPTY_OUTPUT,
            message=f"model {self.model!r} answered without text or tool call: {why}"[:500],
        )


class ModelClient(abc.ABC):
    """Calls one model. Close it when done, or use it as an async context manager."""

    @abc.abstractmethod
    async def generate(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition] = (),
        params: ModelParams | None = None,
    ) -> ModelResponse:
        """One answer to ``messages``; ``params`` replaces the client's own parameters for this call.

        Retries by itself (see ``retry.py``). Raises ``StageFailure`` when that did not help; an
        answer without output is returned, see :meth:`ModelResponse.is_empty`.
        """

    async def close(self) -> None:  # noqa: B027 - a client that holds nothing need not say so
        """Release connections. Calling it twice is allowed."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def require_output(response: ModelResponse, phase: IssuePhase = IssuePhase.RUN) -> ModelResponse:
    """``response`` itself. Raises ``StageFailure`` (``model_empty_output``) when it is empty."""
    if response.is_empty:
        raise StageFailure(response.empty_output_issue(phase))
    return response
