"""A session on one sandbox at Daytona."""

from __future__ import annotations

from ....contracts.network import NetworkPolicy
from ..remote import Prepared, RemoteSession, Shell
from ..shared.own_thread import in_own_thread
from .api import DaytonaApi, DaytonaError
from .creation import living
from .network import network_settings
from .params import DaytonaParams
from .records import Facts


class DaytonaSession(RemoteSession):
    """As any remote session, with a network that can be switched."""

    def __init__(
        self, facts: Facts, api: DaytonaApi, shell: Shell, params: DaytonaParams, ready: Prepared
    ) -> None:
        super().__init__(facts.handle(), shell, params, ready)
        self._api = api
        self._facts = facts

    async def set_network_policy(self, policy: NetworkPolicy) -> None:
        """Switch the network of the living sandbox."""
        settings = network_settings(policy)

        def switch() -> None:
            if settings.networks or settings.domains:
                # A list of the other kind may be in force; what the policy forbids is cut first.
                self._update(network_block_all=True)
                self._update(network_allow_list=settings.networks, domain_allow_list=settings.domains)
            else:
                self._update(network_block_all=settings.block_all)

        await in_own_thread(switch, f"network-{self.handle.id}")

    def _update(self, **wanted: str | bool | None) -> None:
        from daytona_api_client import UpdateSandboxNetworkSettings

        update = UpdateSandboxNetworkSettings.model_validate(wanted)
        try:
            self._api.call(
                lambda timeout: self._api.sandboxes.update_network_settings(
                    self._facts.sandbox, update, _request_timeout=timeout
                )
            )
        except DaytonaError as error:
            living(self._api, self.handle.id, self._facts.sandbox)
            raise OSError(f"Daytona does not switch the network: {error} ({error.status})") from error
