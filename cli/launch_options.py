"""What commands and the launcher exchange."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StartOptions:
    """How a launch is started."""

    detach: bool = False
    """Leave once it is running; a worker stays behind and serves it."""
    removes_keys: bool = True
    """Remove the private files of keys that were written out once the launch is over."""
