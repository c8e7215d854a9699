"""The network of a sandbox that has services beside it: one policy holds for all."""

from __future__ import annotations

from typing import Any

from ....contracts.environment import EnvironmentLostError
from ....contracts.network import NetworkMode, NetworkPolicy
from .container import ID_LABEL, MAIN, SERVICE_LABEL, SandboxData
from .egress_proxy import PROXY_URL, EgressProxy
from .engine import Engine
from .network import HERE, SandboxNetwork
from .sandbox import Sandbox


class ServicesNetwork(SandboxNetwork):
    """The sandbox's own network, and those of its services, which follow it."""

    def __init__(
        self,
        sandbox: Sandbox,
        proxy: EgressProxy,
        mode: NetworkMode,
        others: list[SandboxNetwork],
        names: list[str],
    ) -> None:
        super().__init__(sandbox, proxy, mode)
        self._others = others
        self._names = names

    @classmethod
    def attached(cls, sandbox: Sandbox, proxy: EgressProxy) -> ServicesNetwork:
        """As it is at a living sandbox."""
        own = SandboxNetwork.found(sandbox, proxy)
        others: list[SandboxNetwork] = []
        names: list[str] = []
        for item in services_of(sandbox.engine, sandbox.environment_id):
            networks = (item.get("NetworkSettings") or {}).get("Networks") or {}
            names += [item["Labels"][SERVICE_LABEL]]
            names += [alias for entry in networks.values() for alias in entry.get("Aliases") or []]
            if item["Labels"][SERVICE_LABEL] == MAIN or item["State"] != "running":
                continue
            other = service_sandbox(sandbox.engine, sandbox.environment_id, item["Id"])
            try:
                others.append(SandboxNetwork.found(other, proxy))
            except EnvironmentLostError:
                continue  # it has ended since; closing tells
        return cls(sandbox, proxy, own.mode, others, names)

    def variables(self) -> dict[str, str]:
        """What tells programs of the proxy, and that services are reached without it."""
        own = super().variables()
        return own | around_proxy(self._names) if own else own

    def switch(self, policy: NetworkPolicy) -> None:
        """Put a policy into force for the sandbox and all services that run; what has ended stays so."""
        super().switch(policy)
        for other in self._others:
            other.switch_unless_over(policy)


def service_sandbox(engine: Engine, environment_id: str, container: str) -> Sandbox:
    """The container of a service, as far as its network and files are concerned."""
    return Sandbox(engine, environment_id, SandboxData(container=container, workdir="/", user="0"))


def services_of(engine: Engine, environment_id: str) -> list[dict[str, Any]]:
    """The containers of a sandbox's services as the engine lists them, ``main`` included. Blocks."""
    filters = {"label": [f"{ID_LABEL}={environment_id}", SERVICE_LABEL]}
    found: list[dict[str, Any]] = engine.translated(engine.api.containers, all=True, filters=filters)
    return sorted(found, key=lambda item: str(item["Labels"][SERVICE_LABEL]))


def around_proxy(names: list[str]) -> dict[str, str]:
    """The variables that say what is reached without the egress proxy: services of these names."""
    here = ",".join([HERE, *dict.fromkeys(names)])
    return {"no_proxy": here, "NO_PROXY": here}


def service_variables(names: list[str]) -> dict[str, str]:
    """The variables that tell a service of the egress proxy.

    Not in lower case, as its sandbox is told: the ``wget`` of busybox, with which many a health check asks
    its own machine, knows those and no exceptions from them.
    """
    return dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), PROXY_URL) | around_proxy(names)
