"""The base of every model that crosses a boundary."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Contract(BaseModel):
    """A model that refuses unknown keys, so that a typo is an error and never a silent default."""

    model_config = ConfigDict(extra="forbid", validate_default=False)
