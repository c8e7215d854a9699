"""One request to the endpoint, and what has come back of it so far."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from ...contracts.request import ModelProtocol


@dataclass
class Exchange:
    """Grows while the answer comes in; so it tells what there is however that ends."""

    protocol: ModelProtocol
    sent_characters: int
    began: float = field(default_factory=time.monotonic)
    """Of the monotonic clock."""
    sent: bool = False
    """True from the moment on at which the request goes out: whoever has it may work on it, and be paid."""
    status: int | None = None
    """Of the answer, ``None`` before it begins."""
    content_type: str = ""
    raw: bytearray = field(default_factory=bytearray)

    async def trace(self, event: str, info: dict[str, Any]) -> None:
        """To be told by the HTTP client what it does (its request extension ``trace``)."""
        # Asking a proxy for a tunnel is told by the same name.
        if event.endswith(".send_request_headers.started") and info["request"].method == b"POST":
            self.sent = True
