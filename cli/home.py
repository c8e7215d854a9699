"""Where AgentCompass keeps its own files on this machine; does not import the server's modules."""

from __future__ import annotations

from ..activities.host import home_folder

__all__ = ["home_folder"]
