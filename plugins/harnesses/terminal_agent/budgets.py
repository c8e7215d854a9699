"""The agent's own budgets, and what a model call is charged."""

from __future__ import annotations

from ....contracts.issues import Issue, IssuePhase, Severity
from .params import TerminalAgentParams
from .state import AgentState

TURN_BUDGET = "terminal_agent.turn_budget"
TOKEN_BUDGET = "terminal_agent.token_budget"
TIME_BUDGET = "terminal_agent.time_budget"
COST_BUDGET = "terminal_agent.cost_budget"
IDLE = "terminal_agent.idle"
CONTEXT_LIMIT = "terminal_agent.context_limit"


def error(code: str, message: str) -> Issue:
    """An issue of the agent: an ERROR beside the score of what it left."""
    return Issue(severity=Severity.ERROR, phase=IssuePhase.RUN, code=code, message=message)


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
