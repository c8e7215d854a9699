"""The network of sandboxes whose policy is ``public``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .engine import CONFLICT, NOT_FOUND, Engine, EngineError

NAME = "agentcompass"
HOST_NAME = "host.docker.internal"
"""What the engine's machine is called inside."""
_GATEWAY = "host-gateway"
"""What the engine replaces by an address."""
_LABEL = "agentcompass.network"
_SETTINGS: dict[str, Any] = {
    "driver": "bridge",
    "options": {"com.docker.network.bridge.enable_icc": "false"},
    "labels": {_LABEL: "1"},
    "check_duplicate": True,
}
_making = threading.Lock()
"""Threads of one worker wait for one another; other workers are tolerated."""
FORBIDDEN = 403


@dataclass(frozen=True)
class PublicNetwork:
    """The network, and where its members find the engine's machine."""

    id: str
    host_address: str

    @property
    def bind_address(self) -> str:
        """Where a server on the engine's machine must listen for them to find it there."""
        # A virtual machine's gateway leads to the loopback of its user's machine.
        return "127.0.0.1" if self.host_address == _GATEWAY else self.host_address

    @property
    def extra_hosts(self) -> dict[str, str]:
        """For a container's hosts file: services such as a model server, where the policy allows them."""
        return {HOST_NAME: self.host_address}


def public_network(engine: Engine) -> PublicNetwork:
    """The network, made when it is missing. Sandboxes in it do not reach one another. Blocks."""
    network = _only_one(engine)
    gateways = [part["Gateway"] for part in network["IPAM"]["Config"] or [] if part.get("Gateway")]
    # An engine in a virtual machine of its own knows better where its user's machine is.
    inner = "Docker Desktop" in str(engine.info().get("OperatingSystem"))
    return PublicNetwork(network["Id"], _GATEWAY if inner or not gateways else gateways[0].partition("/")[0])


def _only_one(engine: Engine) -> dict[str, Any]:
    """Names need not be unique, and engines start no container in a network of whose name there are two.

    Of several that were made at once, everybody keeps the oldest and removes the others. One that somebody else
    has called so is used when there is none of ours, and never removed.
    """
    with _making:
        found = _named(engine)
        if not found:
            _tolerant(engine, (CONFLICT,), engine.api.create_network, NAME, **_SETTINGS)
            found = _named(engine)
        found.sort(key=lambda net: (net["Created"], net["Id"]))
        ours = [network for network in found if _LABEL in (network["Labels"] or {})]
        for other in ours[1:]:
            # One that a sandbox has joined already cannot go before that has ended.
            _tolerant(engine, (NOT_FOUND, FORBIDDEN, CONFLICT), engine.api.remove_network, other["Id"])
        return (ours or found)[0]


def _tolerant(
    engine: Engine, statuses: tuple[int, ...], call: Callable[..., object], *arguments: str, **more: Any
) -> None:
    try:
        engine.translated(call, *arguments, **more)
    except EngineError as error:
        if error.status not in statuses:
            raise


def _named(engine: Engine) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = engine.translated(engine.api.networks, names=[NAME])
    return [network for network in found if network["Name"] == NAME]
