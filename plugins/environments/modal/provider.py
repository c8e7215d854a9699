"""The provider ``modal``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel

from ....contracts.environment import (
    Environment,
    EnvironmentCapabilities,
    EnvironmentHandle,
    EnvironmentLostError,
    EnvironmentRecord,
    OpenRequest,
)
from ....contracts.errors import UsageError
from ....contracts.network import NetworkMode, NetworkPolicy
from ....contracts.request import EnvironmentSpec
from ..remote import Shell, prepared
from ..shared.cancellation import finish
from ..shared.own_thread import in_own_thread
from .api import ModalApi, ModalError, ModalMissingError, api_for
from .channel import ModalChannel
from .creation import Creation, living
from .images import dockerfile_of
from .network import network_settings
from .params import ModalParams
from .records import PROVIDER, Facts, sandbox_name, tags_of_labels
from .removal import remove
from .session import ModalSession

if TYPE_CHECKING:
    import modal

_REMOVAL_SECONDS = 300.0
_LOOKS_AT_ONCE = 16


class Modal(Environment[ModalParams]):
    """A sandbox at Modal for each task; reached from any worker."""

    id = PROVIDER
    description = "A sandbox at Modal for each task"
    Params: ClassVar[type[BaseModel]] = ModalParams
    capabilities = EnvironmentCapabilities(
        network_modes=list(NetworkMode),
        switches_network=True,
        resources=["cpu", "memory_mb", "gpu"],
        isolated=True,
        host_bound=False,
    )

    def __init__(self, params: ModalParams) -> None:
        super().__init__(params)
        changed = {"switches_network": params.network_switching}
        self.capabilities = self.capabilities.model_copy(update=changed)

    async def preflight(self, spec: EnvironmentSpec) -> None:
        """Raise ``UsageError`` for what cannot be, ``ServiceUnreachableError`` when Modal does not answer."""
        dockerfile_of(spec.setup)
        for policy in (spec.network_policy, spec.run_network_policy, spec.verifier_network_policy):
            network_settings(policy or NetworkPolicy())
        api = await api_for(self.params)
        try:
            await api.app()
        except ModalMissingError as error:
            # The app is made when it is needed; what else is not there was named by a parameter.
            if self.params.modal_environment and self.params.modal_environment in str(error):
                raise UsageError(f"Modal has no environment {self.params.modal_environment!r}") from error
        except ModalError as error:
            raise UsageError(f"Modal refuses this worker: {error}") from error

    async def open(self, request: OpenRequest) -> ModalSession:
        """Make the sandbox of ``request.environment_id``, or take up the one that is there.

        Cancelled or failed half-way, it leaves nothing that ``close`` does not find by the id.
        """
        api = await api_for(self.params)
        creation = Creation(api, self.params, request)
        try:
            facts = await creation.run()
            session = await self._session(api, facts, request.env_variables)
            if creation.made is None and self.params.network_switching:
                await session.set_network_policy(request.network_policy)
        except BaseException:
            # What it made itself goes, what it found stays.
            if creation.made is not None:
                await finish(remove(api, creation.made, _REMOVAL_SECONDS))
            raise
        return session

    async def attach(self, handle: EnvironmentHandle) -> ModalSession:
        """A session on a sandbox that was opened before. Raises ``EnvironmentLostError``."""
        _require_ours(handle)
        sandbox_id = str(handle.data.get("sandbox") or "")
        if not sandbox_id:
            raise EnvironmentLostError(f"environment {handle.id!r} has no sandbox")
        api = await api_for(self.params)
        facts = await living(api, handle.id, sandbox_id)
        if facts.environment_id != handle.id:
            raise ValueError(f"sandbox {sandbox_id} is not environment {handle.id!r}")
        return await self._session(api, facts, None)

    async def close(self, handle: EnvironmentHandle) -> None:
        """End the sandbox, found by its name and tag: a handle cannot name anybody else's."""
        _require_ours(handle)
        api = await api_for(self.params)
        try:
            sandbox = await api.named(sandbox_name(handle.id))
            facts = Facts.of(sandbox, await api.tags(sandbox))
        except ModalMissingError:
            return
        except ModalError as error:
            raise OSError(f"Modal does not tell of a sandbox: {error}") from error
        if facts.environment_id == handle.id:
            await remove(api, sandbox, _REMOVAL_SECONDS)

    async def list_environments(self, labels: dict[str, str] | None = None) -> list[EnvironmentRecord]:
        """Sandboxes of this provider that carry all of ``labels``, the oldest first."""
        api = await api_for(self.params)
        wanted = tags_of_labels(labels or {})
        try:
            found = await api.call(lambda: self._running(api, wanted))
        except ModalError as error:
            raise OSError(f"Modal does not list sandboxes: {error}") from error
        few = asyncio.Semaphore(_LOOKS_AT_ONCE)

        async def facts_of(sandbox: modal.Sandbox) -> Facts | None:
            async with few:
                try:
                    return Facts.of(sandbox, await api.tags(sandbox))
                except ModalMissingError:  # ended meanwhile
                    return None

        all_facts = await asyncio.gather(*map(facts_of, found))
        records = [facts.record() for facts in all_facts if facts is not None and facts.environment_id]
        return sorted(records, key=lambda record: record.created_at or 0.0)

    async def _running(self, api: ModalApi, tags: dict[str, str]) -> list[modal.Sandbox]:
        import modal

        try:
            app = await api.app()
        except ModalMissingError:
            return []
        listing = modal.Sandbox.list.aio(app_id=app.app_id, tags=tags, client=api.client)
        found = {sandbox.object_id: sandbox async for sandbox in listing}
        return list(found.values())

    async def _session(self, api: ModalApi, facts: Facts, variables: dict[str, str] | None) -> ModalSession:
        shell = Shell(ModalChannel(api, facts, tuple(self.params.ports)))
        ready = await in_own_thread(
            lambda: prepared(shell, facts.workdir, variables), f"prepare-{facts.environment_id}"
        )
        return ModalSession(facts, api, shell, self.params, ready)


def _require_ours(handle: EnvironmentHandle) -> None:
    if handle.provider != PROVIDER:
        raise ValueError(f"a handle of {handle.provider!r} was given to {PROVIDER}")
