"""A session on one sandbox at Modal."""

from __future__ import annotations

from ....contracts.network import NetworkPolicy
from ..remote import Prepared, RemoteSession, Shell
from .api import ModalApi, ModalError
from .creation import living
from .network import network_settings
from .params import ModalParams
from .records import Facts


class ModalSession(RemoteSession):
    """As any remote session, with a network that can be switched."""

    def __init__(
        self, facts: Facts, api: ModalApi, shell: Shell, params: ModalParams, ready: Prepared
    ) -> None:
        super().__init__(facts.handle(), shell, params, ready, params.user or "")
        self._api = api
        self._facts = facts

    async def set_network_policy(self, policy: NetworkPolicy) -> None:
        """Switch the network of the living sandbox; Modal cuts the connections that the new policy forbids."""
        lists = network_settings(policy).lists()
        switch = self._facts.sandbox._experimental_set_outbound_network_policy
        try:
            await self._api.call(lambda: switch.aio(**lists))
        except ModalError as error:
            await living(self._api, self.handle.id, self._facts.sandbox_id)
            raise OSError(f"Modal does not switch the network: {error}") from error
