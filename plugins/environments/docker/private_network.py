"""The network in which the services of one sandbox reach one another, and nothing else."""

from __future__ import annotations

import hashlib
import ipaddress
from typing import Any

from ....contracts.environment import OpenRequest
from ....contracts.errors import UsageError
from ....contracts.network import NetworkMode, NetworkPolicy
from .container import ID_LABEL
from .engine import CONFLICT, Engine, EngineError
from .network import private_network_name

_OPTIONS = {
    # No address of the engine's machine in it, so that none of its services is reached.
    "com.docker.network.bridge.inhibit_ipv4": "true"
}
_OWN_RANGE = ipaddress.IPv4Network("198.18.0.0/15")
"""For tests of networks (RFC 2544): used when the engine's own address pools, some thirty networks, are used up."""
_PREFIX = 26
_TRIES = 40
_NOWHERE = "192.0.2.1"
"""An address for documentation (RFC 5737), which nobody answers at."""


def private_network(engine: Engine, request: OpenRequest, labels: dict[str, str]) -> str:
    """The id of the network of a sandbox, made when it is missing. Blocks.

    Raises ``UsageError`` when somebody else's network has its name.
    """
    name = private_network_name(request.environment_id)
    pool: ipaddress.IPv4Network | None = None
    for turn in range(_TRIES):
        found = networks_of(engine, request.environment_id)
        if found:
            oldest: str = min(found, key=lambda net: (net["Created"], net["Id"]))["Id"]
            return oldest
        try:
            return _create(engine, name, labels, pool)
        except EngineError as error:
            text = str(error).lower()
            if "pool" in text:  # none is left of the engine's, or ours overlaps another one
                pool = _own_pool(request.environment_id, turn)
            elif error.status != CONFLICT:
                raise OSError(f"no network can be made for the services: {error}") from error
            elif not networks_of(engine, request.environment_id):
                raise UsageError(f"a network {name!r} of somebody else is in the way; remove it") from error
    raise OSError("no network can be made for the services: every range of addresses is taken")


def networks_of(engine: Engine, environment_id: str) -> list[dict[str, Any]]:
    """The networks of one sandbox. Blocks."""
    filters = {"label": [f"{ID_LABEL}={environment_id}"]}
    found: list[dict[str, Any]] = engine.translated(engine.api.networks, filters=filters)
    return found


def name_servers(request: OpenRequest) -> list[str]:
    """The name servers of the services; empty: the engine's.

    The engine answers names of services by itself. What it would ask others for leaves, on engines
    before 25.0.5, an internal network by way of their machine: so nobody is asked, unless a phase is public.
    """
    spec = request.spec
    baseline = spec.network_policy or NetworkPolicy()
    policies = (request.network_policy, baseline, spec.run_network_policy, spec.verifier_network_policy)
    public = any(policy is not None and policy.network_mode is NetworkMode.PUBLIC for policy in policies)
    return [] if public else [_NOWHERE]


def _create(engine: Engine, name: str, labels: dict[str, str], pool: ipaddress.IPv4Network | None) -> str:
    from docker.types import IPAMConfig, IPAMPool

    made = engine.translated(
        engine.api.create_network,
        name,
        driver="bridge",
        options=_OPTIONS,
        ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=str(pool))]) if pool else None,
        check_duplicate=True,
        internal=True,
        labels=labels,
    )
    identifier: str = made["Id"]
    return identifier


def _own_pool(environment_id: str, turn: int) -> ipaddress.IPv4Network:
    count = 2 ** (_PREFIX - _OWN_RANGE.prefixlen)
    digest = hashlib.sha256(f"{environment_id}\0{turn}".encode()).digest()
    number = int.from_bytes(digest[:8], "big") % count
    first = int(_OWN_RANGE.network_address) + number * 2 ** (32 - _PREFIX)
    return ipaddress.IPv4Network((first, _PREFIX))
