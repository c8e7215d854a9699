"""What commands in remote sandboxes may do."""

from __future__ import annotations

from pydantic import Field

from ....contracts.base import Contract

GIB = 1024**3


class RemoteLimits(Contract):
    """Parameters that all remote environments have."""

    max_output_bytes: int = Field(default=GIB, gt=0)
    """Bytes that one stream of one command may have; a command that writes more is ended."""
    grace_seconds: float = Field(default=2.0, ge=0, le=60)
    """Seconds between the request to end (SIGTERM) and SIGKILL."""
