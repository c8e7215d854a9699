"""The model endpoint's host is always allowed in the run phase.

That is added when a policy is enforced and is no part of the plan: an endpoint's address is not what a
result is identified by.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from ..contracts.environment import EnvironmentCapabilities
from ..contracts.errors import ConfigurationError
from ..contracts.network import NetworkMode, NetworkPolicy
from ..contracts.request import ModelProtocol, ModelSpec
from ..plugins.models.endpoint import base_url_of, choose_protocol, endpoint_url


def endpoint_entry(model: ModelSpec) -> str | None:
    """The model's ``host:port`` as an entry of ``allowed_hosts``; ``None`` when no endpoint is named."""
    if not (model.base_url or model.api_key):
        return None
    try:
        protocol = choose_protocol(model)
        if protocol is ModelProtocol.SCRIPTED:
            return None  # answers come from a file
        url = endpoint_url(base_url_of(model, protocol), protocol)
    except ConfigurationError:
        return None  # no client could use that address; whoever calls the model says so
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        ipaddress.IPv6Address(url.host)
    except ValueError:
        return f"{url.host}:{port}" if url.host else None
    return f"[{url.host}]:{port}"


def with_model_access(
    policy: NetworkPolicy,
    model: ModelSpec,
    capabilities: EnvironmentCapabilities,
    harness_hosts: Sequence[str] = (),
) -> NetworkPolicy:
    """The run phase's policy as it is enforced; ``harness_hosts`` are let through like the endpoint.

    ``no-network`` becomes an allowlist of these alone, where the provider has allowlists; where it has
    none, it stays closed.
    """
    entry = endpoint_entry(model)
    wanted = [*([entry] if entry else []), *harness_hosts]
    missing = [host for host in wanted if host not in policy.allowed_hosts]
    if not missing or policy.network_mode is NetworkMode.PUBLIC:
        return policy
    if NetworkMode.ALLOWLIST not in capabilities.network_modes:
        return policy
    return NetworkPolicy(network_mode=NetworkMode.ALLOWLIST, allowed_hosts=[*policy.allowed_hosts, *missing])
