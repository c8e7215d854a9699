"""Launches that were ended from outside while no worker of theirs ran: with the local server nobody would serve what they left.

Requests and attempts of such a launch wait on a queue of their own. A worker that is started for it asks them to end, waits
until they have cleaned up, and leaves.
"""

from __future__ import annotations

import asyncio
import logging

from temporalio.service import RPCError

from ..activities.orphans import queues_of_orphans
from ..contracts.errors import AgentCompassError
from ..contracts.workflows import launch_workflow_id
from .connection import Connection
from .embedded_server import agentcompass_home
from .troubles import is_polled
from .worker_process import LaunchWorker

LOOK_SECONDS = 60.0
"""Between two looks of a worker process."""
_CONCURRENCY = 64
_log = logging.getLogger("agentcompass.worker")


class LeftBehind:
    """Finds such launches and starts their workers; nothing to do with a cluster, whose workers serve all launches."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._workers: dict[str, LaunchWorker] = {}
        """Kept, because they remember how often a worker died."""

    async def look_again_and_again(self) -> None:
        """At once and then every minute, until cancelled."""
        while True:
            try:
                await self.serve()
            except (RPCError, OSError, AgentCompassError) as error:
                _log.warning("what ended launches left behind was not looked for: %s", error)
            await asyncio.sleep(LOOK_SECONDS)

    async def serve(self, only: str = "") -> list[str]:
        """Start the workers that are missing, or that of one launch; returns the launches that have left something and have one.

        One that has none, because its workers die again and again, costs the others nothing. Raises ``RPCError``.
        """
        if self._connection.mode != "embedded":
            return []
        served = []
        for launch_id, queue in sorted((await queues_of_orphans(self._connection.client)).items()):
            if only not in ("", launch_id):
                continue
            own = queue == launch_workflow_id(launch_id)
            if not own and await is_polled(self._connection.client, queue):
                continue  # whoever serves schedules looks for orphans, too
            worker = self._workers.setdefault(launch_id, LaunchWorker(agentcompass_home(), launch_id))
            try:
                started = await asyncio.to_thread(
                    worker.ensure, queue, _CONCURRENCY, self._connection.address
                )
            except (OSError, AgentCompassError) as error:
                _log.warning("what launch %s left behind has no worker: %s", launch_id, error)
                continue
            served.append(launch_id)
            if started:
                _log.info("launch %s was ended without its requests; started a worker for them", launch_id)
        return served
