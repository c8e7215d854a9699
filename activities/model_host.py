"""The model endpoint in the run phase's allowlist: an agent is of no use without its model."""

from __future__ import annotations

from urllib.parse import urlsplit

from ..contracts.network import NetworkMode, NetworkPolicy
from ..contracts.plan import ExecutionPlan

_DEFAULT_PORTS = {"http": 80, "https": 443}


def with_model_host(plan: ExecutionPlan, base_url: str, *, switches_network: bool) -> ExecutionPlan:
    """The plan whose run phase may reach ``base_url``; changed only where an allowlist holds.

    A provider that cannot switch between phases gets the same list from the opening on.
    """
    policy = plan.run_network_policy
    entry = _entry_of(base_url)
    if policy.network_mode is not NetworkMode.ALLOWLIST or not entry or entry in policy.allowed_hosts:
        return plan
    extended = NetworkPolicy(network_mode=policy.network_mode, allowed_hosts=[*policy.allowed_hosts, entry])
    update: dict[str, object] = {"run_network_policy": extended}
    if not switches_network and plan.baseline_network_policy == policy:
        update["environment"] = plan.environment.model_copy(update={"network_policy": extended})
        if plan.evaluation_network_policy == policy:
            update["evaluation_network_policy"] = extended
    return plan.model_copy(update=update)


def _entry_of(base_url: str) -> str:
    """``host:port`` of a URL, empty without one."""
    parts = urlsplit(base_url)
    if not parts.hostname:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{parts.port or _DEFAULT_PORTS.get(parts.scheme, 443)}"
