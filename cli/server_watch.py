"""A worker that serves schedules has no command beside it that would start a dead local server again."""

from __future__ import annotations

import asyncio
import logging
from typing import Literal

from ..contracts.errors import ServiceUnreachableError
from .connection import Connection
from .embedded_server import EmbeddedServer, ServerStartError, agentcompass_home

WATCH_SECONDS = 5.0
_LOG = logging.getLogger("agentcompass.worker")


async def keep_server(connection: Connection) -> Literal[True]:
    """Start the local server again whenever it has died; one that was stopped on purpose stays so.

    Returns never. Raises ``ServiceUnreachableError`` when the server had to move to another port, which the
    worker's connection cannot follow.
    """
    server = EmbeddedServer(agentcompass_home())
    while True:
        await asyncio.sleep(WATCH_SECONDS)
        if not server.has_died():
            continue
        try:
            info = await server.ensure()
        except ServerStartError as error:
            _LOG.error("the local Temporal server has died and cannot be started: %s", error)
            continue
        _LOG.warning("the local Temporal server had died; it was started again")
        if info.address != connection.address:
            raise ServiceUnreachableError(
                f"the local Temporal server has moved from {connection.address} to {info.address}; "
                "start this worker again"
            )
