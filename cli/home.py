"""Where AgentCompass keeps its own files on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def home_folder(env: Mapping[str, str] = os.environ) -> Path:
    """``$AGENTCOMPASS_HOME``, by default ``~/.agentcompass``; does not import the server's modules."""
    return Path(env.get("AGENTCOMPASS_HOME") or "~/.agentcompass").expanduser().absolute()
