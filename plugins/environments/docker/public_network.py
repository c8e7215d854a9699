"""The network of sandboxes whose policy is ``public``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .engine import Engine

NAME = "agentcompass"
HOST_NAME = "host.docker.internal"
"""What the engine's machine is called inside."""
_GATEWAY = "host-gateway"
"""What the engine replaces by an address."""
_OPTIONS = {"com.docker.network.bridge.enable_icc": "false"}


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
    api = engine.api
    found = _named(engine)
    if not found:
        labels = {"agentcompass.network": "1"}
        engine.translated(api.create_network, NAME, driver="bridge", options=_OPTIONS, labels=labels)
        found = _named(engine)
    # Names need not be unique: of two that were made at once, everybody takes the older one.
    network = min(found, key=lambda net: (net["Created"], net["Id"]))
    gateways = [part["Gateway"] for part in network["IPAM"]["Config"] or [] if part.get("Gateway")]
    # An engine in a virtual machine of its own knows better where its user's machine is.
    inner = "Docker Desktop" in str(engine.info().get("OperatingSystem"))
    return PublicNetwork(network["Id"], _GATEWAY if inner or not gateways else gateways[0].partition("/")[0])


def _named(engine: Engine) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = engine.translated(engine.api.networks, names=[NAME])
    return [network for network in found if network["Name"] == NAME]
