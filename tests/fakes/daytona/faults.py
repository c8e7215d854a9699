"""What a test wants to go wrong."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from checking import refusal


class Faults:
    """Set by ``PUT /faults``."""

    def __init__(self) -> None:
        self.quota = 1000
        """How many sandboxes the account may have."""
        self.page = 2
        """The largest page of a listing."""
        self.busy = 0
        """How many of the next calls are answered with 429."""
        self.lost_answers = 0
        """How many of the next creations are done, and answered with 503."""
        self.broken_creations = 0
        """How many of the next sandboxes never start."""
        self.hold_creations = False
        """Sandboxes do not start while this is set."""
        self.requests: list[str] = []
        """Method and path of every call."""

    def change(self, values: dict[str, Any]) -> None:
        """Set some of them."""
        for name, value in values.items():
            if name not in vars(self):
                raise refusal(400, f"there is no fault {name}")
            setattr(self, name, value)

    def before(self, request: web.Request) -> None:
        """Count a call, and perhaps refuse it."""
        self.requests.append(f"{request.method} {request.path}")
        if self.busy:
            self.busy -= 1
            raise refusal(429, "Rate limit exceeded", **{"Retry-After": "1"})

    def after(self, request: web.Request) -> None:
        """Perhaps lose the answer to a call that was done."""
        if self.lost_answers and request.method == "POST" and request.path == "/api/sandbox":
            self.lost_answers -= 1
            raise refusal(503, "upstream went away")

    async def creation(self) -> None:
        """Wait while creations are held."""
        while self.hold_creations:  # noqa: ASYNC110  # set by a plain assignment
            await asyncio.sleep(0.01)
