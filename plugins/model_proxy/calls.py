"""What is known of a call that went through, and what the calls of an attempt come to."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, JsonValue

from ...contracts.base import Contract
from ...contracts.issues import Issue, IssuePhase, Severity
from ...contracts.result import ToolCall, TrajectoryStep, Usage
from .params import ModelProxyParams

CALL_BUDGET = "model_proxy.call_budget"
TOKEN_BUDGET = "model_proxy.token_budget"
COST_BUDGET = "model_proxy.cost_budget"


class ProxiedCall(Contract):
    """One call. ``at`` is the Unix time of its end."""

    at: float
    protocol: str
    status: int
    latency_seconds: float
    model: str = ""
    content: str = ""
    reasoning: str | None = None
    tool_calls: list[ToolCall] = Field(default_factory=list)
    stop_reason: str | None = None
    usage: Usage = Field(default_factory=Usage)
    tokens: int = 0
    estimated: bool = False
    """True when the endpoint did not report tokens."""
    cost_usd: float | None = None
    unanswered: bool = False
    """True when it was sent and no whole answer came back: it counts, for it may have been paid for."""

    def summary(self) -> JsonValue:
        """Without what was said."""
        return self.model_dump(
            mode="json", exclude={"content", "reasoning", "tool_calls"}, exclude_defaults=True
        )

    def step(self, number: int) -> TrajectoryStep:
        """As a step of an agent that does not tell its own."""
        return TrajectoryStep(
            step_id=number,
            source="agent",
            timestamp=self.at,
            message=self.content,
            reasoning=self.reasoning,
            tool_calls=self.tool_calls,
            model=self.model or None,
            usage=self.usage,
            latency_seconds=self.latency_seconds,
            stop_reason=self.stop_reason,
            cost_usd=self.cost_usd,
        )


def total_usage(calls: Sequence[ProxiedCall]) -> Usage:
    """The sums of what was reported."""

    def sum_of(name: str) -> int | None:
        values = [value for call in calls if (value := getattr(call.usage, name)) is not None]
        return sum(values) if values else None

    return Usage(
        prompt_tokens=sum_of("prompt_tokens"),
        completion_tokens=sum_of("completion_tokens"),
        cached_tokens=sum_of("cached_tokens"),
        reasoning_tokens=sum_of("reasoning_tokens"),
    )


def total_cost(calls: Sequence[ProxiedCall]) -> float | None:
    """US dollars of the calls whose cost is known."""
    known = [call.cost_usd for call in calls if call.cost_usd is not None]
    return sum(known) if known else None


def used_up(calls: Sequence[ProxiedCall], params: ModelProxyParams) -> Issue | None:
    """The budget that allows no further call, if any. What the endpoint has refused does not count."""
    counted = [call for call in calls if call.status < 400 or call.unanswered]
    tokens, cost = sum(call.tokens for call in counted), total_cost(counted) or 0.0
    found = None
    if params.max_calls is not None and len(counted) >= params.max_calls:
        found = (CALL_BUDGET, f"{params.max_calls} model calls (max_calls) is used up")
    elif params.max_total_tokens is not None and tokens >= params.max_total_tokens:
        found = (TOKEN_BUDGET, f"{params.max_total_tokens} tokens (max_total_tokens) is used up: {tokens}")
    elif params.max_cost_usd is not None and cost >= params.max_cost_usd:
        found = (COST_BUDGET, f"{params.max_cost_usd:g} USD (max_cost_usd) is used up: {cost:g}")
    if found is None:
        return None
    code, what = found
    message = f"the proxy's budget of {what}"
    return Issue(severity=Severity.ERROR, phase=IssuePhase.RUN, code=code, message=message)
