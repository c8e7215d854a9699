"""What the agent has done so far, as it is checkpointed."""

from __future__ import annotations

from pydantic import Field

from ....contracts.base import Contract
from ....contracts.issues import Issue
from ....contracts.task import Message
from ...models.client import ModelResponse


class Outcome(Contract):
    """What one tool call came to, as the model is told."""

    call_id: str
    text: str
    valid: bool = True
    """False when the call could not be carried out as it was written."""
    finished: bool = False
    """True for ``finish``: the agent says that it is done."""
    answer: str | None = None


class Shortening(Contract):
    """How the conversation is cut down: turns before ``before`` are treated as ``rung`` says."""

    rung: int = Field(ge=0)
    before: int = Field(ge=0)


class Turn(Contract):
    """A finished model call and what was done about it. Times are Unix seconds."""

    response: ModelResponse
    finished_at: float
    sent_characters: int = 0
    """Length of the conversation that was sent."""
    tokens: int = 0
    estimated: bool = False
    """True when the endpoint did not report tokens."""
    cost_usd: float | None = None
    outcomes: list[Outcome] = Field(default_factory=list)
    note: str = ""
    """Said to the model after this turn, beside what the tools returned."""
    shortening: Shortening | None = None
    """Set when the conversation was cut down just before this call."""
    concluded: bool = False
    """True when every tool call has its outcome, and it is decided how to go on."""

    def messages(self) -> list[Message]:
        """The turn as part of the conversation."""
        said = [] if self.response.is_empty else [self.response.as_message()]
        returned = [
            Message(role="tool", content=outcome.text, tool_call_id=outcome.call_id)
            for outcome in self.outcomes
        ]
        noted = [Message(role="user", content=self.note)] if self.note else []
        return [*said, *returned, *noted]


class AgentState(Contract):
    """Everything that a worker needs to go on."""

    turns: list[Turn] = Field(default_factory=list)
    shortening: Shortening | None = None
    """How the conversation is cut down from now on."""
    seconds: float = 0.0
    """Time that counts against the budget."""
    idle_turns: int = 0
    ending: str = ""
    """Why it is over: ``finish``, ``answer`` or the code of ``issue``; empty while it goes on."""
    answer: str | None = None
    issue: Issue | None = None

    @property
    def tokens(self) -> int:
        """Of all calls."""
        return sum(turn.tokens for turn in self.turns)

    @property
    def cost_usd(self) -> float | None:
        """Of all calls whose cost is known; ``None`` when that is none of them."""
        known = [turn.cost_usd for turn in self.turns if turn.cost_usd is not None]
        return sum(known) if known else None
