"""The base of every model that crosses a boundary."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

MAX_SECONDS = 315_360_000.0
"""Ten years: more than any time limit needs, and less than what clocks and engines overflow at."""


class Contract(BaseModel):
    """A model that refuses unknown keys, so that a typo is an error and never a silent default."""

    model_config = ConfigDict(extra="forbid", validate_default=False)
