"""Parameters of the environment ``host_process``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from ....contracts.base import Contract
from .process_space import why_unavailable

GIB = 1024**3


class HostProcessParams(Contract):
    """Where environments live on the worker's machine, and the bounds of their commands."""

    root: Path | None = None
    """Folder of all environments; default ``$AGENTCOMPASS_HOME/environments/host_process``."""
    private_processes: Literal["auto", "always", "never"] = "auto"
    """Whether environments get a process table of their own, so that no signal from inside reaches another
    process of the machine: where the machine allows it, or else nothing runs, or not at all."""
    max_output_bytes: int = Field(default=GIB, gt=0)
    """Bytes that one stream of one command may have; a command that writes more is ended."""
    grace_seconds: float = Field(default=2.0, ge=0, le=60)
    """Seconds between the request to end (SIGTERM) and SIGKILL."""

    @field_validator("root")
    @classmethod
    def _absolute(cls, value: Path | None) -> Path | None:
        if value is None:
            return None
        path = value.expanduser()
        if not path.is_absolute() or path == Path(path.anchor):
            # Workers start in different folders: a relative root would be a different one in each.
            raise ValueError(f"root {str(value)!r} must be an absolute path below '/'")
        return path

    def private(self) -> bool:
        """Whether they get one on this machine. Blocks when first asked."""
        return self.private_processes != "never" and (
            self.private_processes == "always" or why_unavailable() is None
        )

    def resolved_root(self) -> Path:
        """The root with defaults applied and links resolved; it need not exist."""
        home = Path(os.environ.get("AGENTCOMPASS_HOME") or "~/.agentcompass").expanduser().absolute()
        return (self.root or home / "environments" / "host_process").resolve()
