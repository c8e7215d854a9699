"""This machine: where AgentCompass keeps its own files on it, and the name that tells it from others."""

from __future__ import annotations

import functools
import hashlib
import os
import socket
import uuid
from collections.abc import Mapping
from pathlib import Path


def home_folder(env: Mapping[str, str] = os.environ) -> Path:
    """``$AGENTCOMPASS_HOME``, by default ``~/.agentcompass``."""
    return Path(env.get("AGENTCOMPASS_HOME") or "~/.agentcompass").expanduser().absolute()


@functools.cache
def host_name() -> str:
    """The name of this machine: readable, and different from that of every other one. Read once a process."""
    try:
        machine = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except OSError:
        machine = f"{uuid.getnode():x}"
    # Containers of one image share a machine id, but not a host name.
    digest = hashlib.sha256(f"{machine}/{socket.gethostname()}".encode()).hexdigest()[:8]
    return f"{socket.gethostname()}-{digest}"
