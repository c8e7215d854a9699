"""Network policies as Modal knows them."""

from __future__ import annotations

from dataclasses import dataclass

from ....contracts.errors import UsageError
from ....contracts.network import NetworkMode, NetworkPolicy
from ..shared.networks import ipv4_network

_TLS_PORT = "443"
"""What Modal's list of domains is about: it looks at the name in the TLS handshake."""


@dataclass(frozen=True)
class NetworkSettings:
    """What a sandbox may reach: anything, or only what two lists name, which may both be empty."""

    restricted: bool = False
    networks: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()

    def lists(self) -> dict[str, list[str]]:
        """As parameters of the SDK, which takes absent lists for no restriction."""
        if not self.restricted:
            return {}
        return {
            "outbound_cidr_allowlist": list(self.networks),
            "outbound_domain_allowlist": list(self.domains),
        }


def network_settings(policy: NetworkPolicy) -> NetworkSettings:
    """The settings that enforce ``policy``. Raises ``UsageError`` for what Modal cannot enforce."""
    if policy.network_mode is not NetworkMode.ALLOWLIST:
        return NetworkSettings(restricted=policy.network_mode is NetworkMode.NO_NETWORK)
    networks, domains = [], []
    for entry in policy.allowed_hosts:
        network = ipv4_network(entry, "Modal")
        host, _, port = entry.partition(":")
        if network is not None:
            networks.append(network)
        elif port and (port != _TLS_PORT or ipv4_network(host, "Modal")):
            raise UsageError(
                f"Modal allows networks with all their ports, and domains with port {_TLS_PORT}: {entry!r} cannot "
                "be enforced"
            )
        else:
            domains.append(host.rstrip("."))
    return NetworkSettings(True, tuple(networks), tuple(domains))
