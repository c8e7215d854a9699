"""The agent's own budgets, and what a model call is charged."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ....contracts.issues import Issue, IssuePhase, Severity
from ...models.client import ModelResponse
from .params import TerminalAgentParams
from .state import AgentState

TURN_BUDGET = "terminal_agent.turn_budget"
TOKEN_BUDGET = "terminal_agent.token_budget"
TIME_BUDGET = "terminal_agent.time_budget"
COST_BUDGET = "terminal_agent.cost_budget"
IDLE = "terminal_agent.idle"
CONTEXT_LIMIT = "terminal_agent.context_limit"

CHARACTERS_PER_TOKEN = 4
"""For endpoints that do not report tokens."""


def error(code: str, message: str) -> Issue:
    """An issue of the agent: an ERROR beside the score of what it left."""
    return Issue(severity=Severity.ERROR, phase=IssuePhase.RUN, code=code, message=message)


@dataclass(frozen=True)
class Charge:
    """Tokens and cost of a call; ``estimated`` when the endpoint did not report the tokens."""

    tokens: int
    cost_usd: float | None
    estimated: bool


def charge_of(
    response: ModelResponse, sent_characters: int, model: str, params: TerminalAgentParams
) -> Charge:
    """What a call costs: as reported, else by the price table, else unknown."""
    usage = response.usage
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    estimated = prompt is None or completion is None
    if prompt is None:
        prompt = math.ceil(sent_characters / CHARACTERS_PER_TOKEN)
    if completion is None:
        written = len(response.content) + sum(len(str(call.arguments)) for call in response.tool_calls)
        completion = math.ceil(written / CHARACTERS_PER_TOKEN)
    cost = response.cost_usd
    price = params.price_of(model, response.model)
    if cost is None and price is not None:
        cached = min(usage.cached_tokens or 0, prompt)
        cached_price = price.prompt if price.cached is None else price.cached
        cost = (
            (prompt - cached) * price.prompt + cached * cached_price + completion * price.completion
        ) / 1e6
    return Charge(prompt + completion, cost, estimated)


def used_up(state: AgentState, params: TerminalAgentParams) -> Issue | None:
    """The budget that allows no further call, if any."""
    if params.max_turns is not None and len(state.turns) >= params.max_turns:
        return error(TURN_BUDGET, f"the budget of {params.max_turns} turns (max_turns) is used up")
    if params.max_total_tokens is not None and state.tokens >= params.max_total_tokens:
        return error(
            TOKEN_BUDGET,
            f"the budget of {params.max_total_tokens} tokens (max_total_tokens) is used up: {state.tokens}",
        )
    if params.max_seconds is not None and state.seconds >= params.max_seconds:
        return time_issue(params)
    if params.max_cost_usd is not None and (state.cost_usd or 0) >= params.max_cost_usd:
        return error(
            COST_BUDGET,
            f"the budget of {params.max_cost_usd:g} USD (max_cost_usd) is used up: {state.cost_usd:g}",
        )
    return None


def time_issue(params: TerminalAgentParams) -> Issue:
    """The end of the time budget."""
    return error(TIME_BUDGET, f"the budget of {params.max_seconds:g} s (max_seconds) is used up")
