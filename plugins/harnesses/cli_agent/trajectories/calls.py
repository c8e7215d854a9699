"""What the model proxy saw, in place of what the agent says of its tokens."""

from __future__ import annotations

from collections.abc import Sequence

from ....model_proxy.calls import ProxiedCall, total_cost, total_usage
from .parsed import ParsedTrajectory, charge_whole_run


def with_calls(parsed: ParsedTrajectory, calls: Sequence[ProxiedCall]) -> ParsedTrajectory:
    """The agent's own steps with the tokens that were counted; the calls, where it tells no steps."""
    answered = [call for call in calls if call.status < 400]
    cost = total_cost(answered)
    if len(parsed.steps) <= 1:
        steps = [call.step(number) for number, call in enumerate(answered, start=1)]
        return parsed.model_copy(update={"steps": steps or parsed.steps, "cost_usd": cost})
    charge_whole_run(parsed.steps, total_usage(answered), cost)
    return parsed.model_copy(update={"cost_usd": cost})
