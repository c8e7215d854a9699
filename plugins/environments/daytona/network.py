"""Network policies as Daytona knows them."""

from __future__ import annotations

from dataclasses import dataclass

from ....contracts.errors import UsageError
from ....contracts.network import NetworkMode, NetworkPolicy
from ..shared.networks import ipv4_network

_MOST_NETWORKS = 10
_WEB_PORTS = ("80", "443")
"""What Daytona's list of domains is about."""


@dataclass(frozen=True)
class NetworkSettings:
    """The fields of Daytona's requests, of which at most one is set."""

    block_all: bool = False
    networks: str | None = None
    domains: str | None = None


def network_settings(policy: NetworkPolicy) -> NetworkSettings:
    """The settings that enforce ``policy``. Raises ``UsageError`` for what Daytona cannot enforce."""
    if policy.network_mode is not NetworkMode.ALLOWLIST:
        return NetworkSettings(block_all=policy.network_mode is NetworkMode.NO_NETWORK)
    networks, domains = [], []
    for entry in policy.allowed_hosts:
        network = ipv4_network(entry, "Daytona")
        host, _, port = entry.partition(":")
        if network is not None:
            networks.append(network)
        elif port and (port not in _WEB_PORTS or ipv4_network(host, "Daytona")):
            raise UsageError(f"Daytona's allow lists know no ports: {entry!r} cannot be enforced")
        else:
            domains.append(host.rstrip("."))
    if networks and domains:
        raise UsageError(
            f"Daytona is given a list of networks or one of domains, not both: {', '.join(policy.allowed_hosts)}"
        )
    if len(networks) > _MOST_NETWORKS:
        raise UsageError(f"Daytona allows {_MOST_NETWORKS} networks, and the policy has {len(networks)}")
    if networks:
        return NetworkSettings(networks=",".join(networks))
    # Daytona has no empty list.
    return NetworkSettings(domains=",".join(domains)) if domains else NetworkSettings(block_all=True)
