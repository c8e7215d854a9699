"""Harness ``terminal_agent``: a small agent with a shell, driven from the worker."""

from .harness import TerminalAgent
from .params import TerminalAgentParams

__all__ = ["TerminalAgent", "TerminalAgentParams"]
