"""Parameters of the environment ``modal``."""

from __future__ import annotations

from pydantic import Field, field_validator

from ..remote import RemoteLimits

_VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]*$"
_NAME = r"^[A-Za-z0-9._-]{1,64}$"
LONGEST_LIFETIME_MINUTES = 24 * 60
"""Modal lets no sandbox live longer."""


class ModalParams(RemoteLimits):
    """Where, from what, and for how long sandboxes are made."""

    token_id_variable: str = Field(default="MODAL_TOKEN_ID", pattern=_VARIABLE)
    token_secret_variable: str = Field(default="MODAL_TOKEN_SECRET", pattern=_VARIABLE)
    """The variables of the worker that hold the token; the token itself is never a parameter."""
    app_name: str = Field(default="agentcompass", pattern=_NAME)
    """The app at Modal that sandboxes belong to; made when it is not there."""
    modal_environment: str | None = Field(default=None, pattern=_NAME)
    """The environment of the Modal workspace; default: the workspace's."""
    image: str = Field(default="python:3.12-slim", min_length=1)
    """The image of tasks that name none and bring no Dockerfile."""
    registry_secret: str | None = Field(default=None, pattern=_NAME)
    """The secret at Modal with the credentials of a private registry."""
    user: str | None = Field(default=None, pattern=r"^[A-Za-z0-9_.-]+$")
    """Runs commands that name no user; default: root."""
    region: str | None = None
    """Where sandboxes run; default: wherever there is room."""
    gpu_type: str = Field(default="any", pattern=r"^[A-Za-z0-9_.!+-]+$")
    """Of tasks that ask for GPUs, such as ``T4`` or ``H100``."""
    ports: list[int] = Field(default_factory=list)
    """Ports that ``endpoint`` can be asked for; Modal opens none later."""
    network_switching: bool = True
    """Phases may have policies of their own, by a call that Modal's SDK has as an experiment. Off: what a sandbox is
    made with holds to its end, and ``no-network`` also keeps names from being resolved."""
    idle_timeout_minutes: int = Field(default=60, ge=0)
    """Modal ends a sandbox that nobody has called for so long, unless it is kept; 0: never."""
    lifetime_minutes: int = Field(default=LONGEST_LIFETIME_MINUTES, ge=1, le=LONGEST_LIFETIME_MINUTES)
    """Modal ends a sandbox after so long, whatever it does; this cannot be moved later."""
    open_timeout_seconds: float = Field(default=600.0, gt=0, le=86_400)
    """For making a sandbox, waiting for quota included. An image has as long to be built, unless its task says how
    long (``build_timeout_seconds``)."""
    request_timeout_seconds: float = Field(default=60.0, gt=0, le=3600)
    """For one call to answer, and for calls to be repeated while Modal does not or is too busy."""

    @field_validator("ports")
    @classmethod
    def _are_ports(cls, value: list[int]) -> list[int]:
        if wrong := [port for port in value if not 0 < port < 65536]:
            raise ValueError(f"{wrong[0]} is not a port between 1 and 65535")
        return value
