"""Long answers of the engine, event by event."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from .engine import EngineError

if TYPE_CHECKING:
    from requests import Response


class Transfer:
    """A long answer of the engine, event by event, that can be cut off from another thread."""

    def __init__(self) -> None:
        self._response: Response | None = None
        self._stopped = False

    def stop(self) -> bool:
        """Close the connection: the engine gives the work up, and whoever reads sees an error.

        False when the engine has not begun to answer (it may wait for a registry): nothing cuts that off,
        and the connection is closed as soon as it does.
        """
        self._stopped = True
        if self._response is None:
            return False
        from docker.types import CancellableStream

        CancellableStream(iter(()), self._response).close()
        return True

    def events(self, open_response: Callable[[], Response]) -> Iterator[dict[str, Any]]:
        """The JSON objects of the answer. Raises ``EngineError`` for one that says so, and when cut off."""
        response = self._response = open_response()
        try:
            if self._stopped:
                raise EngineError("given up", 0)
            for line in response.iter_lines():
                if self._stopped:
                    raise EngineError("given up", 0)
                event = json.loads(line) if line.strip() else {}
                if "error" in event:
                    raise EngineError(str(event["error"]).strip(), 0)
                yield event
        finally:
            response.close()
