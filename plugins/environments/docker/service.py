"""The container of one service beside the sandbox."""

from __future__ import annotations

from typing import Any

from ....contracts.environment import OpenRequest
from ....contracts.errors import UsageError
from ....contracts.network import NetworkMode
from ....contracts.request import ResourceRequirements
from .compose import Healthcheck, Service
from .container import (
    DEFAULT_CAPABILITIES,
    ID_LABEL,
    SERVICE_LABEL,
    ImageFacts,
    container_name,
    labels_of,
    limits,
)
from .engine import CONFLICT, NOT_FOUND, Engine, EngineError
from .membership import Membership
from .params import DockerParams
from .public_network import public_network
from .volumes import Volumes

_NANO = 1_000_000_000
_LOG = {"type": "json-file", "config": {"max-size": "2m", "max-file": "1"}}
_TRIES = 3


class ServiceContainer:
    """Makes and starts the container of one service, or takes up the one that is there. Blocks."""

    def __init__(
        self,
        engine: Engine,
        params: DockerParams,
        request: OpenRequest,
        service: Service,
        membership: Membership,
        image: ImageFacts,
    ) -> None:
        self.found = False
        """True when it was running already, from an earlier try."""
        self.made: str | None = None
        self._engine = engine
        self._params = params
        self._request = request
        self._service = service
        self._membership = membership
        self._image = image

    @property
    def name(self) -> str:
        """The engine's name of the container."""
        return f"{container_name(self._request.environment_id, 0)}.s-{self._membership.service}"

    def run(self, volumes: Volumes) -> str:
        """The id of the started container. Raises ``UsageError`` for what the engine cannot start."""
        for _ in range(_TRIES):
            facts = self._facts()
            if facts is None:
                self._create()
                continue
            labels = facts["Config"]["Labels"] or {}
            if labels.get(ID_LABEL) != self._request.environment_id:
                raise UsageError(f"a container {self.name!r} of somebody else is in the way; remove it")
            container: str = facts["Id"]
            if facts["State"]["Status"] == "created":
                self._start(facts, volumes)
            else:
                self.found = True  # running, or over already, as a service may be that prepares something
            return container
        raise OSError(f"the container of service {self._membership.service!r} vanishes as soon as it is made")

    def _facts(self) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self._engine.translated(self._engine.api.inspect_container, self.name)
        except EngineError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        return found

    def _create(self) -> None:
        api = self._engine.api
        platform = self._service.platform or self._params.platform
        try:
            made = self._engine.translated(
                api.create_container_from_config, self._config(), self.name, platform
            )
        except EngineError as error:
            if error.status != CONFLICT:  # otherwise somebody else has made it at the same time
                raise self._refused(error) from error
        else:
            self.made = made["Id"]

    def _start(self, facts: dict[str, Any], volumes: Volumes) -> None:
        api, container = self._engine.api, facts["Id"]
        volumes.copy_into(self._membership.service, container)
        try:
            if self._request.network_policy.network_mode is NetworkMode.PUBLIC:
                network = public_network(self._engine).id
                joined = facts["NetworkSettings"]["Networks"].values()
                if all(entry["NetworkID"] != network for entry in joined):
                    self._engine.translated(api.connect_container_to_network, container, network)
            self._engine.translated(api.start, container)
        except EngineError as error:
            raise self._refused(error) from error

    def _config(self) -> dict[str, Any]:
        api, service, membership = self._engine.api, self._service, self._membership
        capabilities = set(DEFAULT_CAPABILITIES) - {
            name.upper().removeprefix("CAP_") for name in service.cap_drop
        }
        memory = {"shm_size": service.shm_size} if service.shm_size else {}
        resources = ResourceRequirements(cpu=service.cores, memory_mb=service.memory_mb)
        host = api.create_host_config(
            network_mode=membership.network,
            extra_hosts=public_network(self._engine).extra_hosts,
            cap_drop=["ALL"],
            cap_add=[] if "ALL" in {name.upper() for name in service.cap_drop} else sorted(capabilities),
            security_opt=["no-new-privileges"],
            privileged=False,
            pids_limit=min(service.processes or self._params.pids_limit, self._params.pids_limit),
            init=service.init,
            binds=membership.binds or None,
            log_config=_LOG,
            **memory,
            **limits(resources),
            **membership.host_settings(),
        )
        config: dict[str, Any] = api.create_container_config(
            image=self._image.id,
            entrypoint=service.entrypoint,
            command=service.command,
            user=service.user,
            working_dir=service.working_dir,
            labels=labels_of(self._request, self._params) | {SERVICE_LABEL: membership.service},
            host_config=host,
            stdin_open=service.stdin_open,
            tty=service.tty,
            stop_signal=service.stop_signal,
            volumes=membership.nameless_volumes or None,
            healthcheck=healthcheck_settings(service.healthcheck) if service.healthcheck else None,
            **membership.settings(api),
        )
        return config

    def _refused(self, error: EngineError) -> Exception:
        """What a refusal to create or start means."""
        text = f"service {self._membership.service!r} cannot be started: {error}"
        return UsageError(text) if 400 <= error.status < 500 else OSError(text)


def healthcheck_settings(check: Healthcheck) -> dict[str, Any]:
    """A health check as the engine knows it."""
    if check.disabled:
        return {"Test": ["NONE"]}
    return {
        "Test": check.test,
        "Interval": round(check.interval * _NANO),
        "Timeout": round(check.timeout * _NANO),
        "StartPeriod": round(check.start_period * _NANO),
        "Retries": check.retries,
    }
