"""Removing a sandbox and whatever belongs to it, found by its label alone."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable

from .archive import ContainerFiles
from .container import ID_LABEL
from .egress_proxy import EgressError, EgressProxy
from .engine import CONFLICT, NOT_FOUND, Engine, EngineError
from .network import NOTE
from .private_network import networks_of
from .volumes import volumes_of

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.1
_TRIES = 50


async def remove_environment(engine: Engine, proxy: EgressProxy, environment_id: str) -> None:
    """Remove containers, then networks and volumes; nothing happens when there are none."""
    filters = {"label": [f"{ID_LABEL}={environment_id}"]}
    found = await engine.call(lambda: engine.api.containers(all=True, filters=filters))
    await asyncio.gather(*(_remove_with_socket(engine, proxy, container["Id"]) for container in found))
    for network in await engine.call(networks_of, engine, environment_id):
        await _gone(engine, functools.partial(engine.api.remove_network, network["Id"]))
    for volume in await engine.call(volumes_of, engine, environment_id):
        await _gone(engine, functools.partial(engine.api.remove_volume, volume))


async def remove_container(engine: Engine, container: str) -> None:
    """Remove a container; when somebody else is at it, wait until it is gone."""
    try:
        await engine.call(lambda: engine.api.remove_container(container, force=True, v=True))
    except EngineError as error:
        if error.status == NOT_FOUND:
            return
        if error.status != CONFLICT:
            raise
        while await _exists(engine, container):  # noqa: ASYNC110  # the engine announces nothing here
            await asyncio.sleep(_POLL_SECONDS)


async def _remove_with_socket(engine: Engine, proxy: EgressProxy, container: str) -> None:
    """And have the egress proxy close the socket that it may have inside."""
    files = ContainerFiles(engine, container)
    try:
        proxied = await engine.call(files.status, NOTE) is not None
    except EngineError as error:  # its disk is full, for one; it is removed all the same
        _log.debug("container %s does not say whether it has a proxy: %s", container[:12], error)
        proxied = True
    await remove_container(engine, container)
    if proxied:
        await _forget(engine, proxy, container)


async def _gone(engine: Engine, remove: Callable[[], object]) -> None:
    """Remove a network or volume, which the engine keeps for a moment after its last container."""
    for turn in range(_TRIES):
        try:
            await engine.call(remove)
        except EngineError as error:
            if error.status == NOT_FOUND:
                return
            in_use = error.status == CONFLICT or "active endpoints" in str(error)
            if not in_use or turn == _TRIES - 1:
                raise
            await asyncio.sleep(_POLL_SECONDS)
        else:
            return


async def _forget(engine: Engine, proxy: EgressProxy, container: str) -> None:
    try:
        await engine.call(proxy.forget, container)
    except (EgressError, EngineError) as error:
        # The container is gone, and with it whoever could use the socket; the next use clears it up.
        _log.warning("the egress proxy still has a socket of container %s: %s", container[:12], error)


async def _exists(engine: Engine, container: str) -> bool:
    try:
        await engine.call(lambda: engine.api.inspect_container(container))
    except EngineError as error:
        if error.status == NOT_FOUND:
            return False
        raise
    return True
