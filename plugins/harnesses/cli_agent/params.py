"""Parameters of ``cli_agent``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from ....contracts.base import Contract
from ....contracts.component import LocalPath
from ...model_proxy import ModelProxyParams
from .description import shipped_agents


class CliAgentParams(Contract):
    """Which agent, and how it gets into the environment."""

    agent: str | None = None
    """Id of a shipped description."""
    description: LocalPath | None = None
    """An own description, a YAML file, in place of ``agent``."""
    version: str = Field(default="", pattern=r"^[A-Za-z0-9._+-]*$")
    """Version of the agent to install; by default the newest."""
    install: Literal["auto", "never"] = "auto"
    """``never``: the environment must have the agent."""
    install_dir: str | None = Field(default=None, pattern=r"^/")
    """Where in the environment the agent is installed, absolute; by default in the home directory. With
    ``host_process``, attempts that share it install once."""
    variables: dict[str, str] = Field(default_factory=dict)
    """More variables for the agent; they win."""
    proxy: ModelProxyParams | None = None
    """Let the agent call the model through the worker: the key stays there, calls are counted and bounded."""
    poll_seconds: float = Field(default=1.0, gt=0, le=60)
    """How often the agent is looked at."""

    @field_validator("agent")
    @classmethod
    def _is_shipped(cls, value: str | None) -> str | None:
        known = shipped_agents()
        if value is not None and value not in known:
            raise ValueError(f"there is no such agent; there are {', '.join(known)}")
        return value

    @model_validator(mode="after")
    def _one_of_agent_and_description(self) -> CliAgentParams:
        if (self.agent is None) == (self.description is None):
            raise ValueError("give one of agent and description")
        return self
