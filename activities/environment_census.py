"""Counts the environments that exist, at the providers that this worker has used.

Opened minus closed would be wrong as soon as a worker is killed. Asking the provider is right, and
shows what nobody closed.
"""

from __future__ import annotations

import asyncio
import logging

from .hook_calls import abandoned_hooks
from .services import Services

SHARED_SECONDS = 60.0
"""Between two looks at a provider that every worker asks."""
HOST_SECONDS = 15.0
_log = logging.getLogger("agentcompass.environments")


async def keep_counting(services: Services, *, seconds: float = HOST_SECONDS) -> None:
    """Look until cancelled, each provider at its own pace. A provider that does not answer is asked again."""
    loop = asyncio.get_running_loop()
    next_look: dict[str, float] = {}
    unable: set[str] = set()
    while True:
        services.metrics.hooks_abandoned(abandoned_hooks())
        for provider, environment in list(services.environments_used.items()):
            if provider in unable or loop.time() < next_look.get(provider, 0.0):
                continue
            bound = environment.capabilities.host_bound
            next_look[provider] = loop.time() + (seconds if bound else SHARED_SECONDS)
            try:
                found = await environment.list_environments()
            except NotImplementedError:
                unable.add(provider)
                continue
            except Exception as error:  # extension code may raise anything; a look is no reason to stop
                _log.warning("environments of %s cannot be counted: %s", provider, error)
                continue
            host = services.settings.host_queue if bound else ""
            services.metrics.environments_existing(provider, host, len(found))
        await asyncio.sleep(min(seconds, HOST_SECONDS))
