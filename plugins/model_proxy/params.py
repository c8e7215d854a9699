"""Parameters of the proxy."""

from __future__ import annotations

from pydantic import Field

from ...contracts.base import Contract
from ..models.prices import ModelPrice

LOOPBACK = "127.0.0.1"


class ModelProxyParams(Contract):
    """Where the endpoint is, and what an attempt may use up."""

    host: str | None = Field(default=None, pattern=r"^[A-Za-z0-9.:_\[\]-]+$")
    """Under which the environment reaches the worker's machine; default: what the environment says."""
    bind: str | None = Field(default=None, pattern=r"^[A-Za-z0-9.:_-]+$")
    """Address of the worker's machine to listen on; default: what the environment says, else 127.0.0.1."""
    max_calls: int | None = Field(default=None, ge=1)
    max_total_tokens: int | None = Field(default=None, ge=1)
    max_cost_usd: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    prices: dict[str, ModelPrice] = Field(default_factory=dict)
    """By model id; ``*`` stands for every other model."""
