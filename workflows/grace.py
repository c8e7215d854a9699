"""The time that an attempt has for its cleanup, from the moment when it is cancelled."""

from __future__ import annotations

from datetime import datetime, timedelta

from temporalio import workflow

_LEAST = timedelta(seconds=5)
"""What closing an environment gets, however short the configured grace is."""


class Grace:
    """The configured grace, and what is left of it."""

    def __init__(self, seconds: float) -> None:
        self.whole = max(timedelta(seconds=seconds), _LEAST)
        self._since: datetime | None = None

    @property
    def running(self) -> bool:
        """True once the attempt is cancelled."""
        return self._since is not None

    @property
    def patience(self) -> timedelta:
        """How long a cancelled phase may take to stop: half, because the rest is for cleaning up."""
        return self.whole / 2

    @property
    def left(self) -> timedelta:
        """All of it before the cancellation, never less than some seconds after it."""
        if self._since is None:
            return self.whole
        return max(self.whole - (workflow.now() - self._since), _LEAST)

    def begin(self) -> None:
        """The attempt is cancelled now."""
        self._since = workflow.now()
