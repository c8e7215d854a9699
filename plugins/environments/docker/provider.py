"""The provider ``docker``."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import os
from typing import Any, ClassVar

from pydantic import BaseModel

from ....contracts.environment import (
    Environment,
    EnvironmentCapabilities,
    EnvironmentHandle,
    EnvironmentRecord,
    OpenRequest,
)
from ....contracts.network import NetworkMode
from ....contracts.request import EnvironmentSpec
from ..shared.cancellation import finish
from ..shared.variables import checked_variables
from . import lease
from .archive import ContainerFiles
from .container import (
    ID_LABEL,
    LABEL_PREFIX,
    PROVIDER,
    VARIABLES,
    VARIABLES_LABEL,
    ImageFacts,
    SandboxData,
    opening_labels,
    record_of,
)
from .creation import Creation
from .egress_proxy import EgressError, EgressProxy
from .engine import CONFLICT, NOT_FOUND, Engine, EngineError, engine_at
from .files import read_file
from .images import provide_image
from .network import NOTE, SandboxNetwork
from .params import DockerParams
from .preflight import check_engine, check_resources
from .public_network import HOST_NAME
from .sandbox import Sandbox, facts_of
from .session import DockerSession
from .transfer import Transfer

_log = logging.getLogger(__name__)
_REMOVAL_POLL_SECONDS = 0.1
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
        image = await self._image(request)
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
            network = SandboxNetwork.found(sandbox, self._egress)
            if VARIABLES_LABEL not in labels:
                return sandbox, {}, network
            content = read_file(sandbox.files, VARIABLES, _LARGEST_VARIABLES)
            return sandbox, json.loads(content), network

        sandbox, variables, network = await self._engine.call(look)
        return DockerSession(sandbox, self.params, variables, network)

    async def close(self, handle: EnvironmentHandle) -> None:
        """Remove the container, found by its label alone: a handle cannot name anybody else's."""
        _require_ours(handle)
        for record in await self._find({ID_LABEL: handle.id}):
            container = str(record.handle.data["container"])
            files = ContainerFiles(self._engine, container)
            proxied = await self._engine.call(files.status, NOTE) is not None
            await self._remove(container)
            if proxied:
                await self._forget(container)

    async def renew(self, handle: EnvironmentHandle, expires_at: float) -> None:
        """Have the container end itself at that time and not before; a kept one never does."""
        _require_ours(handle)
        container = str(handle.data.get("container") or "")

        def renew() -> None:
            labels = opening_labels(self._facts(handle, container)["Config"]["Labels"])
            try:
                lease.renew(ContainerFiles(self._engine, container), labels, expires_at)
            except EngineError:
                self._facts(handle, container)  # it may have ended just now, which says more
                raise

        await self._engine.call(renew)

    async def list_environments(self, labels: dict[str, str] | None = None) -> list[EnvironmentRecord]:
        """Containers of this provider that carry all of ``labels``, the oldest first."""
        wanted = {f"{LABEL_PREFIX}{name}": value for name, value in (labels or {}).items()}
        found = await self._find(wanted)
        ends = await self._engine.call(
            lambda: [
                lease.expires_at(ContainerFiles(self._engine, str(record.handle.data["container"])))
                for record in found
            ]
        )
        records = [
            record.model_copy(update={"expires_at": end}) for record, end in zip(found, ends, strict=True)
        ]
        return sorted(records, key=lambda record: record.created_at or 0.0)

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

    async def _image(self, request: OpenRequest) -> ImageFacts:
        transfer = Transfer()
        working = asyncio.ensure_future(
            asyncio.to_thread(provide_image, self._engine, self.params, request.spec.setup, transfer)
        )
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            transfer.stop()
            await finish(asyncio.wait({working}))
            raise

    async def _discard(self, creation: Creation) -> None:
        """After a failed opening: what it made itself goes, what it found stays."""
        for container in creation.made:
            await self._remove(container)

    async def _find(self, labels: dict[str, str]) -> list[EnvironmentRecord]:
        filters = {"label": [ID_LABEL, *(f"{name}={value}" for name, value in labels.items())]}
        found: list[dict[str, Any]] = await self._engine.call(
            lambda: self._engine.api.containers(all=True, filters=filters)
        )
        return [record_of(item) for item in found if labels.items() <= item["Labels"].items()]

    async def _remove(self, container: str) -> None:
        """Remove a container; when somebody else is at it, wait until it is gone."""
        try:
            await self._engine.call(lambda: self._engine.api.remove_container(container, force=True, v=True))
        except EngineError as error:
            if error.status == NOT_FOUND:
                return
            if error.status != CONFLICT:
                raise
            while await self._exists(container):  # noqa: ASYNC110  # the engine announces nothing here
                await asyncio.sleep(_REMOVAL_POLL_SECONDS)

    async def _forget(self, container: str) -> None:
        try:
            await self._engine.call(self._egress.forget, container)
        except (EgressError, EngineError) as error:
            # The container is gone, and with it whoever could use the socket; the next use clears it up.
            _log.warning("the egress proxy still has a socket of container %s: %s", container[:12], error)

    async def _exists(self, container: str) -> bool:
        try:
            await self._engine.call(lambda: self._engine.api.inspect_container(container))
        except EngineError as error:
            if error.status == NOT_FOUND:
                return False
            raise
        return True


def _require_ours(handle: EnvironmentHandle) -> None:
    if handle.provider != PROVIDER:
        raise ValueError(f"a handle of {handle.provider!r} was given to {PROVIDER}")
