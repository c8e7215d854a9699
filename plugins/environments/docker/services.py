"""Opening a sandbox that has services beside it, as a compose file of its task says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ....contracts.environment import OpenRequest
from ....contracts.errors import UsageError
from ....contracts.network import NetworkMode
from ....contracts.request import EnvironmentSetup, ResourceRequirements
from ..shared.cancellation import finish
from .building import BuildOptions, build
from .compose import MAIN, ComposeError, ComposeProject, Service, read_project
from .container import ImageFacts, labels_of
from .creation import Creation
from .egress_proxy import EgressProxy
from .engine import Engine
from .images import provide_image
from .membership import Membership
from .network import SandboxNetwork
from .params import DockerParams
from .private_network import name_servers, private_network
from .readiness import Readiness
from .sandbox import Sandbox
from .service import ServiceContainer
from .services_keeper import ensure_keeper
from .services_network import ServicesNetwork, service_sandbox, service_variables, services_of
from .transfer import Transfer
from .volumes import Volumes

ProvideImage = Callable[[Callable[[Transfer], ImageFacts]], Awaitable[ImageFacts]]
_DEFAULT_BUDGET_SECONDS = 600.0
_SHARE = 0.9
"""Of the budget: what is late is named before the whole opening is out of time."""


class ServicesOpening:
    """One opening."""

    def __init__(
        self,
        engine: Engine,
        params: DockerParams,
        proxy: EgressProxy,
        request: OpenRequest,
        provide: ProvideImage,
    ) -> None:
        self.fresh = True
        """False when containers of an earlier try were there, which are not this one's to discard."""
        self.project: ComposeProject
        """Set as soon as the file has been read."""
        self.main_user = "0"
        """Who runs the command of ``main``, whoever the agent is; known after :meth:`run`."""
        self._engine = engine
        self._params = params
        self._proxy = proxy
        self._request = request
        self._provide = provide
        budget = request.spec.setup.build_timeout_seconds or _DEFAULT_BUDGET_SECONDS
        self.deadline = time.monotonic() + budget * _SHARE

    async def run(self) -> tuple[Sandbox, ServicesNetwork]:
        """The sandbox, with every service ready. Raises ``UsageError``, ``OSError``."""
        self.project = await asyncio.to_thread(project_at, str(self._request.spec.setup.compose_file))
        self.fresh = not await self._engine.call(services_of, self._engine, self._request.environment_id)
        images = {MAIN: await self._image(MAIN)}
        for name, service in self.project.services.items():
            images[name] = images[MAIN] if service.uses_task_image else await self._image(name)
        self.main_user = self.project.main.user or images[MAIN].user or "0"
        labels = labels_of(self._request, self._params)
        await self._engine.call(ensure_keeper, self._engine, self._params.egress_image)
        network = await self._engine.settle(private_network, self._engine, self._request, labels)
        volumes = Volumes(self._engine, self._request, self.project, labels)
        if self.fresh:
            await self._engine.settle(volumes.make, images[MAIN])
        readiness = Readiness(self._engine, self.project, self.deadline)
        sandbox: Sandbox | None = None
        for name, service in self.project.services.items():
            for other, dependency in service.depends_on.items():
                if other != MAIN:
                    await readiness.reached(other, dependency.condition)
            membership = self._membership(name, network, volumes)
            if name == MAIN:
                sandbox = await self._start_main(membership, images[name], volumes)
            else:
                readiness.containers[name] = await self._start(service, membership, images[name], volumes)
        assert sandbox is not None  # a project always has it
        await readiness.all_ready()
        # Again: had it been about to end itself, it has done so by now.
        await self._engine.call(ensure_keeper, self._engine, self._params.egress_image)
        return sandbox, await self._engine.call(ServicesNetwork.attached, sandbox, self._proxy)

    async def _start(
        self, service: Service, membership: Membership, image: ImageFacts, volumes: Volumes
    ) -> str:
        made = ServiceContainer(self._engine, self._params, self._request, service, membership, image)
        container = await self._engine.settle(made.run, volumes)
        policy = self._request.network_policy
        if made.found or policy.network_mode is NetworkMode.ALLOWLIST:
            sandbox = service_sandbox(self._engine, self._request.environment_id, container)
            network = SandboxNetwork(sandbox, self._proxy, policy.network_mode)
            await finish(sandbox.in_thread(network.switch_unless_over, policy))
        return container

    async def _start_main(self, membership: Membership, image: ImageFacts, volumes: Volumes) -> Sandbox:
        main = self.project.main
        setup = self._request.spec.setup
        spec = self._request.spec.model_copy(
            update={
                "setup": setup.model_copy(update={"workdir": setup.workdir or main.working_dir}),
                "resources": _filled(self._request.spec.resources, main),
            }
        )
        request = self._request.model_copy(update={"spec": spec})
        params = self._params.model_copy(update={"user": self._params.user or main.user})
        creation = Creation(
            self._engine, params, request, image, membership, lambda made: volumes.copy_into(MAIN, made)
        )
        sandbox = await self._engine.settle(creation.run)
        policy = request.network_policy
        network = SandboxNetwork(sandbox, self._proxy, policy.network_mode)
        await finish(sandbox.in_thread(network.switch, policy))
        return sandbox

    def _membership(self, name: str, network: str, volumes: Volumes) -> Membership:
        service = self.project.services[name]
        names = [alias for other in self.project.services for alias in self.project.aliases(other)]
        allowlist = self._request.network_policy.network_mode is NetworkMode.ALLOWLIST
        # The commands of the sandbox are told of the proxy one by one; a service is told once.
        proxied = service_variables(names) if allowlist and name != MAIN else {}
        return Membership(
            service=name,
            network=network,
            aliases=self.project.aliases(name),
            dns=name_servers(self._request),
            environment=proxied | service.environment,
            binds=volumes.binds(name),
            nameless_volumes=volumes.nameless(name),
            tmpfs=volumes.in_memory(name),
            hostname=service.hostname,
        )

    async def _image(self, name: str) -> ImageFacts:
        """The image of a service; of ``main`` the request's, which is the task's, comes first."""
        service, setup = self.project.services[name], self._request.spec.setup
        params = self._params.model_copy(update={"platform": service.platform or self._params.platform})
        if name == MAIN and (setup.image or (service.build is None and _says_more(setup, service))):
            return await self._provide(lambda transfer: provide_image(self._engine, params, setup, transfer))
        if service.build is not None:
            found = service.build
            context = self.project.local(found.context)
            options = BuildOptions(found.args, found.target)
            return await self._provide(
                lambda transfer: build(
                    self._engine, context, found.dockerfile, params.platform, transfer, options
                )
            )
        named = setup.model_copy(update={"image": service.own_image, "build_context": None})
        return await self._provide(lambda transfer: provide_image(self._engine, params, named, transfer))


def project_at(file: str) -> ComposeProject:
    """The project of a compose file. Blocks. Raises ``UsageError``."""
    try:
        return read_project(Path(file))
    except ComposeError as error:
        raise UsageError(f"{Path(file).name}: {error}") from None


def _says_more(setup: EnvironmentSetup, main: Service) -> bool:
    """Where the task builds its image, a name in the compose file is only the name of that."""
    return setup.build_context is not None or main.own_image is None


def _filled(asked: ResourceRequirements, main: Service) -> ResourceRequirements:
    """The task's limits, and where it has none those of the compose file."""
    offered: dict[str, Any] = {"cpu": main.cores, "memory_mb": main.memory_mb}
    missing = {name: value for name, value in offered.items() if getattr(asked, name) is None}
    return asked.model_copy(update=missing)
