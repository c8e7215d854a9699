"""``host_process`` that opens slowly, and says which network policy each phase gets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from pydantic import Field

from agentcompass.contracts import (
    EnvironmentCapabilities,
    EnvironmentHandle,
    EnvironmentSession,
    EnvironmentSpec,
    NetworkMode,
    NetworkPolicy,
    OpenRequest,
)
from agentcompass.plugins.environments.host_process import HostProcess
from agentcompass.plugins.environments.host_process.params import HostProcessParams


class SwitchingParams(HostProcessParams):
    """Parameters of the environment."""

    open_seconds: float = Field(default=0.0, ge=0)
    log: Path
    """Where every opening, switch and closing is written."""


class Switching(HostProcess):
    """Enforces nothing, but is asked like a provider that does."""

    id = "switching"
    description = "host_process that says which policies it is given"
    Params = SwitchingParams
    params: SwitchingParams
    capabilities = EnvironmentCapabilities(
        network_modes=list(NetworkMode), switches_network=True, isolated=False, host_bound=True
    )

    async def preflight(self, spec: EnvironmentSpec) -> None:
        """Accept every policy."""

    async def open(self, request: OpenRequest):  # type: ignore[no-untyped-def]  # the session's class is private
        self._note(request.environment_id, "open", request.network_policy)
        await asyncio.sleep(self.params.open_seconds)
        public = request.model_copy(update={"network_policy": NetworkPolicy()})
        return self._watched(await super().open(public))

    async def attach(self, handle: EnvironmentHandle):  # type: ignore[no-untyped-def]  # as above
        return self._watched(await super().attach(self._own(handle)))

    async def close(self, handle: EnvironmentHandle) -> None:
        self._note(handle.id, "close")
        await super().close(self._own(handle))

    def _own(self, handle: EnvironmentHandle) -> EnvironmentHandle:
        # A handle that the runtime makes up for a failed opening names this provider.
        return handle.model_copy(update={"provider": HostProcess.id})

    def _watched(self, session: EnvironmentSession) -> EnvironmentSession:
        async def set_network_policy(policy: NetworkPolicy) -> None:
            self._note(session.handle.id, "switch", policy)

        session.set_network_policy = set_network_policy  # type: ignore[method-assign]  # this one session's
        return session

    def _note(self, environment: str, what: str, policy: NetworkPolicy | None = None) -> None:
        said = " ".join((policy.network_mode, *policy.allowed_hosts)) if policy else ""
        with self.params.log.open("a") as file:
            file.write(json.dumps([environment, what, said]) + "\n")


class Fixed(Switching):
    """One that keeps the policy with which it was opened."""

    id = "fixed"
    description = "switching, without switching"
    capabilities = Switching.capabilities.model_copy(update={"switches_network": False})
