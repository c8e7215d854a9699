"""The provider ``docker``."""

from __future__ import annotations

import asyncio
import functools
import json
import os
from collections.abc import Callable
from typing import Any, ClassVar

from pydantic import BaseModel

from ....contracts.environment import (
    Environment,
    EnvironmentCapabilities,
    EnvironmentHandle,
    EnvironmentRecord,
    OpenRequest,
    ServiceReport,
)
from ....contracts.network import NetworkMode
from ....contracts.request import EnvironmentSpec
from ..shared.cancellation import finish
from ..shared.variables import checked_variables
from . import lease
from .archive import ContainerFiles
from .container import (
    ID_LABEL,
    PROVIDER,
    SERVICE_LABEL,
    VARIABLES,
    VARIABLES_LABEL,
    ImageFacts,
    SandboxData,
    opening_labels,
)
from .creation import Creation
from .egress_proxy import EgressProxy
from .engine import Engine, EngineError, engine_at
from .files import read_file
from .images import provide_image
from .listing import find_environments
from .main_service import begin
from .network import SandboxNetwork
from .params import DockerParams
from .preflight import check_engine, check_resources
from .public_network import HOST_NAME
from .removal import remove_container, remove_environment
from .sandbox import Sandbox, facts_of
from .services import ServicesOpening
from .services_keeper import ensure_keeper
from .services_network import ServicesNetwork
from .services_report import report_services
from .session import DockerSession
from .transfer import Transfer

_LARGEST_VARIABLES = 16 * 1024**2


class Docker(Environment[DockerParams]):
    """A container for each sandbox, without any right on its machine."""

    id = PROVIDER
    description = "A container for each task, on a local or remote Docker engine"
    Params: ClassVar[type[BaseModel]] = DockerParams
    capabilities = EnvironmentCapabilities(
        network_modes=list(NetworkMode),
        switches_network=True,
        resources=["cpu", "memory_mb", "storage_mb", "gpu"],
        isolated=True,
        host_bound=True,
    )

    def __init__(self, params: DockerParams) -> None:
        super().__init__(params)
        self.capabilities = self.capabilities.model_copy(
            update={
                "host_bound": self._engine.local,
                "worker_host": HOST_NAME if self._engine.local else None,
            }
        )
        self.lease_seconds = params.time_to_live_seconds

    async def preflight(self, spec: EnvironmentSpec) -> None:
        """Raise ``UsageError`` for what this engine cannot do, ``ServiceUnreachableError`` without one."""
        await self._engine.call(check_engine, self._engine, spec, self.params)

    async def open(self, request: OpenRequest) -> DockerSession:
        """Create and start the container of ``request.environment_id``, or take up the one that is there.

        Cancelled or failed half-way, it leaves nothing that ``close`` does not find by the id.
        """
        checked_variables(request.env_variables)
        check_resources(request.spec.resources)
        if request.spec.setup.compose_file is not None:
            return await self._open_with_services(request)
        image = await self._image(
            lambda transfer: provide_image(self._engine, self.params, request.spec.setup, transfer)
        )
        creation = Creation(self._engine, self.params, request, image)
        try:
            sandbox = await self._engine.settle(creation.run)
            mode = request.network_policy.network_mode
            network = SandboxNetwork(sandbox, self._egress, mode)
            if creation.found or mode is NetworkMode.ALLOWLIST:
                await finish(sandbox.in_thread(network.switch, request.network_policy))
        except BaseException:
            await finish(self._discard(creation))
            raise
        return DockerSession(sandbox, self.params, request.env_variables, network)

    async def attach(self, handle: EnvironmentHandle) -> DockerSession:
        """A session on a container that was opened before. Raises ``EnvironmentLostError``."""
        _require_ours(handle)
        container = str(handle.data.get("container") or "")

        def look() -> tuple[Sandbox, dict[str, str], SandboxNetwork]:
            facts = self._facts(handle, container)
            labels = facts["Config"]["Labels"]
            sandbox = Sandbox(self._engine, handle.id, SandboxData.of(facts))
            network = (
                ServicesNetwork.attached(sandbox, self._egress)
                if SERVICE_LABEL in labels
                else SandboxNetwork.found(sandbox, self._egress)
            )
            if VARIABLES_LABEL not in labels:
                return sandbox, {}, network
            content = read_file(sandbox.files, VARIABLES, _LARGEST_VARIABLES)
            return sandbox, json.loads(content), network

        sandbox, variables, network = await self._engine.call(look)
        return DockerSession(sandbox, self.params, variables, network)

    async def close(self, handle: EnvironmentHandle) -> None:
        """Remove all that belongs to it, found by its label alone: a handle cannot name anybody else's."""
        _require_ours(handle)
        await remove_environment(self._engine, self._egress, handle.id)

    async def services(self, handle: EnvironmentHandle) -> list[ServiceReport]:
        """What became of the services of a compose file, by their label; none for a single container."""
        _require_ours(handle)
        return await self._engine.call(report_services, self._engine, handle.id)

    async def renew(self, handle: EnvironmentHandle, expires_at: float) -> None:
        """Have the container end itself at that time and not before; a kept one never does."""
        _require_ours(handle)
        container = str(handle.data.get("container") or "")

        def renew() -> None:
            labels = self._facts(handle, container)["Config"]["Labels"]
            if SERVICE_LABEL in labels:
                ensure_keeper(self._engine, self.params.egress_image)
            try:
                lease.renew(ContainerFiles(self._engine, container), opening_labels(labels), expires_at)
            except EngineError:
                self._facts(handle, container)  # it may have ended just now, which says more
                raise

        await self._engine.call(renew)

    async def list_environments(self, labels: dict[str, str] | None = None) -> list[EnvironmentRecord]:
        """Sandboxes of this provider that carry all of ``labels``, the oldest first."""

        def look() -> list[EnvironmentRecord]:
            return [self._with_end(record) for record in find_environments(self._engine, labels or {})]

        return sorted(await self._engine.call(look), key=lambda record: record.created_at or 0.0)

    def _with_end(self, record: EnvironmentRecord) -> EnvironmentRecord:
        """With the end of its time to live; what has no container has none."""
        container = str(record.handle.data.get("container") or "")
        end = lease.expires_at(ContainerFiles(self._engine, container)) if container else None
        return record.model_copy(update={"expires_at": end})

    @functools.cached_property
    def _engine(self) -> Engine:
        return engine_at(self.params.host, os.environ.get("DOCKER_HOST"), self.params.engine_timeout_seconds)

    @functools.cached_property
    def _egress(self) -> EgressProxy:
        return EgressProxy(self._engine, self.params.egress_image)

    def _facts(self, handle: EnvironmentHandle, container: str) -> dict[str, Any]:
        """What the engine knows of the running container of a handle. Raises ``EnvironmentLostError``."""
        facts = facts_of(self._engine, handle.id, container)
        labels = facts["Config"]["Labels"] = facts["Config"]["Labels"] or {}
        if labels.get(ID_LABEL) != handle.id:
            raise ValueError(f"container {container[:12]} is not environment {handle.id!r}")
        return facts

    async def _open_with_services(self, request: OpenRequest) -> DockerSession:
        opening = ServicesOpening(self._engine, self.params, self._egress, request, self._image)
        try:
            sandbox, network = await opening.run()
            session = DockerSession(sandbox, self.params, request.env_variables, network)
            await begin(session, opening.project.main, opening.main_user, opening.deadline)
        except BaseException:
            if opening.fresh:
                await finish(remove_environment(self._engine, self._egress, request.environment_id))
            raise
        return session

    async def _image(self, provide: Callable[[Transfer], ImageFacts]) -> ImageFacts:
        transfer = Transfer()
        working = asyncio.ensure_future(asyncio.to_thread(provide, transfer))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            if transfer.stop():
                await finish(asyncio.wait({working}))
            else:  # it ends by itself and has made nothing; its failure is of no interest any more
                working.add_done_callback(lambda done: done.cancelled() or done.exception())
            raise

    async def _discard(self, creation: Creation) -> None:
        """After a failed opening: what it made itself goes, what it found stays."""
        for container in creation.made:
            await remove_container(self._engine, container)


def _require_ours(handle: EnvironmentHandle) -> None:
    if handle.provider != PROVIDER:
        raise ValueError(f"a handle of {handle.provider!r} was given to {PROVIDER}")
