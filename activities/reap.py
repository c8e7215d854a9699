"""Look after the environments that any machine can reach, for the whole namespace."""

from __future__ import annotations

import logging

from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError

from ..contracts.activities import REAP_ENVIRONMENTS
from ..contracts.search_attributes import ENVIRONMENT
from ..contracts.upkeep import ReapInput, SweepReport
from ..contracts.workflows import REQUEST_WORKFLOW
from ..plugins.registry import load_registry
from .boundary import activity_boundary
from .heartbeat import heartbeating
from .host import home_folder, host_name
from .reaper import Reaper
from .services import Services

_log = logging.getLogger(__name__)

LATEST_REQUESTS = 500
"""Requests whose providers are asked; older ones have nothing that their own workers have not seen."""


class ReapEnvironments:
    """Running it twice is safe: removing an environment that is gone changes nothing."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._reaper: Reaper | None = None

    @activity.defn(name=REAP_ENVIRONMENTS.name)
    @activity_boundary
    async def reap_environments(self, input: ReapInput) -> SweepReport:
        """Host-bound environments are left to the workers of their hosts."""
        if self._reaper is None:
            self._reaper = Reaper(self._services, load_registry(), home_folder(), host_name())
        async with heartbeating():
            return await self._reaper.sweep(await used_providers(self._services.client), placeless_only=True)


async def used_providers(client: Client) -> set[str]:
    """The providers that the latest requests of a namespace used, whichever worker opened what."""
    found: set[str] = set()
    try:
        async for item in client.list_workflows(
            f'WorkflowType = "{REQUEST_WORKFLOW}"', limit=LATEST_REQUESTS
        ):
            attributes = item.typed_search_attributes
            found |= {str(pair.value) for pair in attributes if pair.key.name == ENVIRONMENT}
    except RPCError as error:
        _log.warning("requests cannot be listed: %s", error)
    return found
