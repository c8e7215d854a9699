"""The network of one sandbox: public, none, or none but what the egress proxy lets through."""

from __future__ import annotations

from typing import Any

from ....contracts.environment import EnvironmentLostError
from ....contracts.network import NetworkMode, NetworkPolicy
from ..shared.packing import Owner
from . import scripts
from .container import container_name
from .egress_proxy import PROXY_URL, EgressError, EgressProxy
from .engine import EngineError
from .files import read_file, write_file
from .public_network import public_network
from .sandbox import Sandbox

NOTE = f"{scripts.HOME}/egress"
"""Inside: which run of the proxy has a socket there."""
HERE = "localhost,127.0.0.1,::1"
"""What is reached without the proxy, for ``no_proxy``."""


class SandboxNetwork:
    """Every method but ``variables`` blocks.

    A sandbox that is not public has no interface but its loopback. With an allowlist the egress proxy
    holds a listening socket on that loopback, whose connections come out in the proxy's own network.
    """

    def __init__(self, sandbox: Sandbox, proxy: EgressProxy, mode: NetworkMode) -> None:
        self.mode = mode
        self._sandbox = sandbox
        self._proxy = proxy

    @classmethod
    def found(cls, sandbox: Sandbox, proxy: EgressProxy) -> SandboxNetwork:
        """As it is at a living sandbox. A proxy that was started anew gets its socket again."""
        facts = sandbox.require_alive()
        if _is_public(facts, sandbox):
            return cls(sandbox, proxy, NetworkMode.PUBLIC)
        # The note is within the agent's reach, so it says nothing of what is allowed: that is known to
        # the proxy. All that a false one does is to give the sandbox a proxy that refuses everything.
        noted = cls._noted(sandbox)
        if noted is None:
            return cls(sandbox, proxy, NetworkMode.NO_NETWORK)
        network = cls(sandbox, proxy, NetworkMode.ALLOWLIST)
        if noted != proxy.identity():
            network._listen(None)
        return network

    def variables(self) -> dict[str, str]:
        """What tells programs of the proxy."""
        if self.mode is not NetworkMode.ALLOWLIST:
            return {}
        names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
        return dict.fromkeys(names, PROXY_URL) | {"no_proxy": HERE, "NO_PROXY": HERE}

    def switch(self, policy: NetworkPolicy) -> None:
        """Put a policy into force; what it forbids is cut before what it allows is opened."""
        mode = policy.network_mode
        if mode is not NetworkMode.PUBLIC:
            self._disconnect()
        if mode is NetworkMode.ALLOWLIST:
            if not (self._noted(self._sandbox) and self._proxy.set_policy(self._sandbox.container, policy)):
                self._listen(policy)
        elif self.mode is NetworkMode.ALLOWLIST or self._noted(self._sandbox):
            # What was started with the proxy's address goes on using it, by the new policy.
            self._proxy.set_policy(self._sandbox.container, policy)
        if mode is NetworkMode.PUBLIC:
            self._connect()
        self.mode = mode

    def switch_unless_over(self, policy: NetworkPolicy) -> None:
        """The same for a container that may end at any time, as a service does that only prepares something."""
        try:
            self.switch(policy)
        except EnvironmentLostError:
            return
        except (EngineError, EgressError):
            try:
                self._sandbox.require_alive()
            except EnvironmentLostError:
                return
            raise

    def renew(self) -> None:
        """After a restart of the container, whose loopback is a new one."""
        if self.mode is NetworkMode.ALLOWLIST:
            self._listen(None)

    def address(self) -> str | None:
        """Where the engine's machine reaches it, if that is this machine."""
        if self.mode is not NetworkMode.PUBLIC or not self._sandbox.engine.local:
            return None
        networks = _outward(self._sandbox.require_alive(), self._sandbox)
        return next((net["IPAddress"] for net in networks.values() if net.get("IPAddress")), None)

    def _listen(self, policy: NetworkPolicy | None) -> None:
        identity = self._proxy.listen(self._sandbox.container, policy)
        write_file(self._sandbox.files, NOTE, identity.encode("ascii"), 0o644, Owner())

    @staticmethod
    def _noted(sandbox: Sandbox) -> str | None:
        try:
            return read_file(sandbox.files, NOTE, 1000).decode("ascii", "replace")
        except (FileNotFoundError, ValueError, OSError):
            return None  # never written, or spoiled from inside

    def _disconnect(self) -> None:
        api = self._sandbox.engine.api
        for network in _outward(self._sandbox.require_alive(), self._sandbox).values():
            self._call(api.disconnect_container_from_network, network["NetworkID"], force=True)

    def _connect(self) -> None:
        api = self._sandbox.engine.api
        facts = self._sandbox.require_alive()
        if _is_public(facts, self._sandbox):
            return
        if "none" in facts["NetworkSettings"]["Networks"]:
            self._call(api.disconnect_container_from_network, "none", force=True)
        self._call(api.connect_container_to_network, public_network(self._sandbox.engine).id)

    def _call(self, function, network: str, **more: bool) -> None:  # type: ignore[no-untyped-def]
        try:
            self._sandbox.engine.translated(function, self._sandbox.container, network, **more)
        except EngineError as error:
            raise self._sandbox.lost_or(error) from error


def _is_public(facts: dict[str, Any], sandbox: Sandbox) -> bool:
    return bool(_outward(facts, sandbox))


def _outward(facts: dict[str, Any], sandbox: Sandbox) -> dict[str, dict[str, Any]]:
    """The networks of a container that lead out: all but ``none``, and the one of its task's services."""
    inward = ("none", private_network_name(sandbox.environment_id))
    networks: dict[str, dict[str, Any]] = facts["NetworkSettings"]["Networks"]
    return {name: network for name, network in networks.items() if name not in inward}


def private_network_name(environment_id: str) -> str:
    """The network in which the services of one sandbox reach one another, and nothing else."""
    return container_name(environment_id, 0)
