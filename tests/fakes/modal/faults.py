"""What a test wants to go wrong."""

from __future__ import annotations

import asyncio
from typing import Any

from checking import refusal
from grpclib import Status
from modal_proto import api_pb2


class Faults:
    """Set through the desk."""

    def __init__(self) -> None:
        self.quota = 1000
        """How many sandboxes the account may have."""
        self.page = 2
        """The largest page of a listing."""
        self.busy = 0
        """How many of the next calls are answered with RESOURCE_EXHAUSTED."""
        self.throttled = 0
        """How many of the next calls are answered so, and with the time after which to come again."""
        self.lost_answers = 0
        """How many of the next creations are done, and answered with UNAVAILABLE."""
        self.broken_creations = 0
        """How many of the next sandboxes end before they are up."""
        self.hold_creations = False
        """Sandboxes do not come up while this is set."""
        self.hold_builds = False
        """Images are not built while this is set."""
        self.hold_removals = False
        """Sandboxes do not end while this is set."""
        self.requests: list[str] = []
        """Names of all calls."""

    def change(self, values: dict[str, Any]) -> None:
        """Set some of them."""
        for name, value in values.items():
            if name not in vars(self):
                raise ValueError(f"there is no fault {name}")
            setattr(self, name, value)

    def before(self, name: str) -> None:
        """Count a call, and perhaps refuse it."""
        self.requests.append(name)
        if self.busy:
            self.busy -= 1
            raise refusal(Status.RESOURCE_EXHAUSTED, "Rate limit exceeded")
        if self.throttled:
            self.throttled -= 1
            policy = api_pb2.RPCRetryPolicy(retry_after_secs=1.0)
            raise refusal(Status.RESOURCE_EXHAUSTED, "Rate limit exceeded", policy)

    async def while_held(self, name: str) -> None:
        """Wait while something is held."""
        while getattr(self, name):  # noqa: ASYNC110  # set by a plain assignment
            await asyncio.sleep(0.01)
