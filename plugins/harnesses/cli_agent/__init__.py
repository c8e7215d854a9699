"""Harness ``cli_agent``: any command-line agent inside the environment, from a description of it."""

from .description import AgentDescription, load_description, shipped_agents
from .harness import CliAgent
from .params import CliAgentParams

__all__ = ["AgentDescription", "CliAgent", "CliAgentParams", "load_description", "shipped_agents"]
