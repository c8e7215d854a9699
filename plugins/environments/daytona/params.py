"""Parameters of the environment ``daytona``."""

from __future__ import annotations

import os

from pydantic import Field, field_validator, model_validator

from ..remote import RemoteLimits

DEFAULT_URL = "https://app.daytona.io/api"


class DaytonaParams(RemoteLimits):
    """Where, from what, and for how long sandboxes are made."""

    api_url: str | None = None
    """Default: the variable ``DAYTONA_API_URL``, else Daytona's own service."""
    api_key_variable: str = Field(default="DAYTONA_API_KEY", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    """The variable of the worker that holds the key; the key itself is never a parameter."""
    organization_id: str | None = None
    """Needed with a token of a user instead of a key."""
    target: str | None = None
    """The region; default: the organization's."""
    snapshot: str | None = None
    """The snapshot of tasks that name no image; default: Daytona's own."""
    image: str | None = None
    """The image of tasks that name none, instead of a snapshot."""
    user: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.-]+$")
    """Runs commands; default: the snapshot's."""
    auto_stop_minutes: int = Field(default=60, ge=0)
    """A sandbox that nobody has called for so long is stopped, and deleted by that unless it is kept; 0: never."""
    lifetime_minutes: int | None = Field(default=None, ge=0)
    """Daytona deletes a sandbox after so long, whatever it does; 0: never; default: a day after its attempt has
    shown its last sign of life."""
    open_timeout_seconds: float = Field(default=600.0, gt=0, le=86_400)
    """For making a sandbox, waiting for quota included."""
    request_timeout_seconds: float = Field(default=60.0, gt=0, le=3600)
    """For one call to answer, and for calls to be repeated while Daytona does not or is too busy."""

    @field_validator("api_url")
    @classmethod
    def _is_url(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError(f"{value!r} must begin with https:// or http://")
        return value.rstrip("/") if value else value

    @model_validator(mode="after")
    def _one_origin(self) -> DaytonaParams:
        if self.snapshot and self.image:
            raise ValueError("give a snapshot or an image, not both")
        return self

    def resolved_url(self) -> str:
        """The address of the API on this machine."""
        return self.api_url or os.environ.get("DAYTONA_API_URL", "").rstrip("/") or DEFAULT_URL
