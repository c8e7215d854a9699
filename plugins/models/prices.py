"""What a model call is charged: as the endpoint reports it, else by a price table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import Field

from ...contracts.base import Contract
from .client import ModelResponse

ANY_MODEL = "*"
CHARACTERS_PER_TOKEN = 4
"""For endpoints that do not report tokens."""


class ModelPrice(Contract):
    """US dollars for a million tokens."""

    prompt: float = Field(ge=0, allow_inf_nan=False)
    completion: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """For prompt tokens that came from the endpoint's cache; ``None``: as ``prompt``."""


def price_of(prices: Mapping[str, ModelPrice], *names: str) -> ModelPrice | None:
    """The price of the first of ``names`` that has one; ``*`` stands for every other model."""
    return next((prices[name] for name in (*names, ANY_MODEL) if name in prices), None)


@dataclass(frozen=True)
class Charge:
    """Tokens and cost of a call; ``estimated`` when the endpoint did not report the tokens."""

    tokens: int
    cost_usd: float | None
    estimated: bool


def charge_of(
    response: ModelResponse, sent_characters: int, model: str, prices: Mapping[str, ModelPrice]
) -> Charge:
    """What a call costs; ``None`` where neither the endpoint nor the table says it."""
    usage = response.usage
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    estimated = prompt is None or completion is None
    if prompt is None:
        prompt = math.ceil(sent_characters / CHARACTERS_PER_TOKEN)
    if completion is None:
        written = len(response.content) + sum(len(str(call.arguments)) for call in response.tool_calls)
        completion = math.ceil(written / CHARACTERS_PER_TOKEN)
    cost = response.cost_usd
    price = price_of(prices, model, response.model)
    if cost is None and price is not None:
        cached = min(usage.cached_tokens or 0, prompt)
        cached_price = price.prompt if price.cached is None else price.cached
        cost = (
            (prompt - cached) * price.prompt + cached * cached_price + completion * price.completion
        ) / 1e6
    return Charge(prompt + completion, cost, estimated)
