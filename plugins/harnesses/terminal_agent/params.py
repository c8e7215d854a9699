"""Parameters of ``terminal_agent``."""

from __future__ import annotations

from pydantic import Field

from ....contracts.base import MAX_SECONDS, Contract
from ...models.prices import ModelPrice


class TerminalAgentParams(Contract):
    """Budgets end the agent with an ERROR that names them; what it left is scored."""

    system_prompt: str | None = None
    """In place of the built-in one; the task's own system prompt follows it in any case."""
    max_turns: int | None = Field(default=50, ge=1)
    """Model calls."""
    max_total_tokens: int | None = Field(default=None, ge=1)
    """Prompt and completion tokens of all calls together."""
    max_seconds: float | None = Field(default=None, gt=0, le=MAX_SECONDS)
    """Time of the agent; the time in which no worker had it does not count."""
    max_cost_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Cost of all calls, as the endpoint reports it, else by ``prices``."""
    prices: dict[str, ModelPrice] = Field(default_factory=dict)
    """By model id; ``*`` stands for every other model."""
    max_idle_turns: int = Field(default=3, ge=1)
    """Turns in a row without a valid tool call or answer, after which the agent is ended."""
    context_tokens: int | None = Field(default=None, ge=1000)
    """The model's context window; old tool outputs are shortened before it is full. ``None``: only when the
    endpoint refuses a conversation for its length."""
    command_timeout_seconds: float = Field(default=120.0, gt=0, le=MAX_SECONDS)
    """Limit of a command for which the model asks no other one."""
    max_command_timeout_seconds: float = Field(default=1800.0, gt=0, le=MAX_SECONDS)
    """The longest limit that the model may ask for."""
    output_bytes: int = Field(default=16_384, ge=256, le=4 * 1024 * 1024)
    """What the model is shown of one tool's output; of a longer one head and tail."""
