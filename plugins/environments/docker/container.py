"""What a container is created with: limits, rights, labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....contracts.base import Contract
from ....contracts.environment import EnvironmentHandle, OpenRequest
from ....contracts.network import NetworkMode
from ....contracts.request import ResourceRequirements
from ..shared.naming import file_name
from . import lease, scripts
from .membership import Membership
from .params import DockerParams
from .public_network import PublicNetwork

if TYPE_CHECKING:
    from docker import APIClient

PROVIDER = "docker"
ID_LABEL = "agentcompass.environment"
LABEL_PREFIX = "agentcompass.label."
SERVICE_LABEL = "agentcompass.service"
"""Which service of a compose file a container is; a sandbox of one container has no such label."""
SECONDS_LABEL = "agentcompass.seconds"
"""How long something lives without a sign of life from its opening on; 0 for ever. Read by the keeper."""
MAIN = "main"
"""The service that is the sandbox: commands run there."""
VARIABLES = f"{scripts.HOME}/variables.json"
"""Holds the environment's own variables, inside."""
VARIABLES_LABEL = "agentcompass.variables"
DEFAULT_WORKDIR = "/workspace"
DEFAULT_CAPABILITIES = "CHOWN DAC_OVERRIDE FOWNER FSETID KILL NET_BIND_SERVICE SETFCAP SETGID SETUID".split()
"""What package managers and services need; nothing that reaches out of the container."""
_MIB = 1024**2
_NANO = 1_000_000_000


class ImageFacts(Contract):
    """What matters of an image's configuration."""

    name: str
    id: str
    user: str
    workdir: str
    architecture: str = ""


class SandboxData(Contract):
    """Which container, and how commands run in it, as it was created."""

    container: str
    """The engine's id: a container that was made anew under the same name is another one."""
    workdir: str
    user: str

    @classmethod
    def of(cls, facts: dict[str, Any]) -> SandboxData:
        """From what the engine knows of one of our containers, whichever version has made it."""
        workdir, user = facts["Config"]["Cmd"][-2:]
        return cls(container=facts["Id"], workdir=workdir, user=user)

    def as_handle(self, environment_id: str) -> EnvironmentHandle:
        """The handle that finds it again."""
        return handle_of(environment_id, self.container)


def handle_of(environment_id: str, container: str) -> EnvironmentHandle:
    """The handle of a container."""
    return EnvironmentHandle(provider=PROVIDER, id=environment_id, data={"container": container})


def container_name(environment_id: str, turn: int) -> str:
    """The deterministic name of a sandbox's container; ``turn`` counts names that strangers hold."""
    name = file_name(environment_id)
    name = name if name.startswith("ac-") else f"ac-{name}"
    return name if turn == 0 else f"{name}.{turn}"


def labels_of(request: OpenRequest, params: DockerParams) -> dict[str, str]:
    """The labels of whatever belongs to the sandbox of ``request``."""
    seconds = lease.initial_seconds(request, params)
    own = {ID_LABEL: request.environment_id, SECONDS_LABEL: str(seconds)}
    return own | {f"{LABEL_PREFIX}{name}": value for name, value in request.labels.items()}


def opening_labels(labels: dict[str, str]) -> dict[str, str]:
    """The labels of the opening, of those that the engine knows; ``labels_of`` is the inverse."""
    return {
        name.removeprefix(LABEL_PREFIX): value
        for name, value in labels.items()
        if name.startswith(LABEL_PREFIX)
    }


def creation_config(
    api: APIClient,
    request: OpenRequest,
    params: DockerParams,
    image: ImageFacts,
    network: PublicNetwork,
    membership: Membership | None = None,
) -> dict[str, Any]:
    """The argument of ``create_container_from_config``, for the sandbox itself."""
    workdir = request.spec.setup.workdir or (image.workdir if image.workdir != "/" else "") or DEFAULT_WORKDIR
    user = params.user or image.user or "0"
    seconds = lease.initial_seconds(request, params)
    volumes = [scripts.HOME, workdir, "/tmp"] if params.read_only else []
    labels = labels_of(request, params) | ({VARIABLES_LABEL: "1"} if request.env_variables else {})
    # Nothing is reachable before a policy says so.
    first_network = network.id if request.network_policy.network_mode is NetworkMode.PUBLIC else "none"
    binds = [f"{mount.source}:{mount.target}:{'ro' if mount.read_only else 'rw'}" for mount in params.mounts]
    shared: dict[str, Any] = {}
    own: dict[str, Any] = {}
    if membership is not None:
        labels[SERVICE_LABEL] = MAIN
        first_network = membership.network
        binds += membership.binds
        volumes += membership.nameless_volumes
        shared, own = membership.host_settings(), membership.settings(api)
    host = api.create_host_config(
        network_mode=first_network,
        extra_hosts=network.extra_hosts,
        cap_drop=["ALL"],
        cap_add=sorted({*DEFAULT_CAPABILITIES, *params.add_capabilities}),
        security_opt=["no-new-privileges"],
        privileged=False,
        read_only=params.read_only,
        # When its time is over and everybody is gone, it goes without anybody's help.
        auto_remove=seconds > 0,
        pids_limit=params.pids_limit,
        shm_size=params.shm_mb * _MIB,
        binds=binds or None,
        log_config={"type": "none", "config": {}},
        **limits(request.spec.resources),
        **shared,
    )
    config: dict[str, Any] = api.create_container_config(
        image=image.id,
        entrypoint=[],
        command=scripts.first_process(seconds, workdir, user),
        # Not the user of commands: what an agent without root does cannot touch the first process.
        user="0:0",
        working_dir="/",
        labels=labels,
        host_config=host,
        stdin_open=True,
        volumes=volumes or None,
        **own,
    )
    return config


def limits(resources: ResourceRequirements) -> dict[str, Any]:
    """Resource limits as the engine knows them."""
    found: dict[str, Any] = {}
    if resources.cpu is not None:
        found["nano_cpus"] = round(resources.cpu * _NANO)
    if resources.memory_mb is not None:
        # No swap beyond it: a task that needs more memory is to fail alike on every machine.
        found["mem_limit"] = found["memswap_limit"] = resources.memory_mb * _MIB
    if resources.storage_mb is not None:
        found["storage_opt"] = {"size": f"{resources.storage_mb}m"}
    if resources.gpu:
        found["device_requests"] = [{"Driver": "", "Count": resources.gpu, "Capabilities": [["gpu"]]}]
    return found
