"""What an engine cannot do, found before anything is opened."""

from __future__ import annotations

from typing import Any

from ....contracts.errors import ServiceUnreachableError, UsageError
from ....contracts.network import NetworkMode
from ....contracts.request import EnvironmentSpec, ResourceRequirements
from .egress_image import ensure_image
from .engine import Engine, EngineError
from .image_facts import find_image
from .params import DockerParams
from .services import project_at

_LEAST_MEMORY_MB = 6
_QUOTA_DRIVERS = ("btrfs", "zfs", "devicemapper")


def check_engine(engine: Engine, spec: EnvironmentSpec, params: DockerParams) -> None:
    """Raise ``UsageError`` or ``ServiceUnreachableError``. Blocks."""
    info = engine.info()
    if info["OSType"] != "linux":
        raise UsageError(
            f"docker needs an engine for Linux containers; {engine.host} is for {info['OSType']}"
        )
    _check_limits(info, spec.resources)
    if spec.setup.compose_file is not None:
        project_at(spec.setup.compose_file)
    _check_image(engine, spec, params)
    policies = (spec.network_policy, spec.run_network_policy, spec.verifier_network_policy)
    if any(policy is not None and policy.network_mode is NetworkMode.ALLOWLIST for policy in policies):
        ensure_image(engine, params.egress_image)


def check_resources(resources: ResourceRequirements) -> None:
    """Raise ``UsageError`` for what no engine accepts."""
    if resources.memory_mb is not None and resources.memory_mb < _LEAST_MEMORY_MB:
        raise UsageError(f"docker needs at least {_LEAST_MEMORY_MB} MiB of memory, not {resources.memory_mb}")


def _check_limits(info: dict[str, Any], resources: ResourceRequirements) -> None:
    check_resources(resources)
    if resources.cpu is not None and resources.cpu > info["NCPU"]:
        raise UsageError(f"resources.cpu is {resources.cpu:g}; the Docker engine has {info['NCPU']}")
    total = info["MemTotal"] // 1024**2
    if resources.memory_mb is not None and total and resources.memory_mb > total:
        raise UsageError(f"resources.memory_mb is {resources.memory_mb}; the Docker engine has {total}")
    if resources.storage_mb is not None and not _has_quotas(info):
        raise UsageError(
            f"resources.storage_mb cannot be enforced by this Docker engine: its storage is {_storage(info)}, and "
            "limits need overlay2 on xfs with pquota, btrfs or zfs"
        )
    if resources.gpu and not _has_gpus(info):
        raise UsageError(
            f"resources.gpu is {resources.gpu}; the Docker engine has no GPU runtime (nvidia-container-toolkit)"
        )


def _has_quotas(info: dict[str, Any]) -> bool:
    return info["Driver"] in _QUOTA_DRIVERS or _storage(info) == "overlay2 on xfs"


def _storage(info: dict[str, Any]) -> str:
    backing = dict(info.get("DriverStatus") or []).get("Backing Filesystem", "an unknown file system")
    return f"{info['Driver']} on {backing}"


def _has_gpus(info: dict[str, Any]) -> bool:
    return "nvidia" in (info.get("Runtimes") or {}) or bool(info.get("CDISpecDirs"))


def _check_image(engine: Engine, spec: EnvironmentSpec, params: DockerParams) -> None:
    """An image that is neither here nor at its registry is a mistake in the request."""
    name = spec.setup.image or params.image
    if not name or spec.setup.build_context or find_image(engine, name) is not None:
        return
    if params.pull == "never":
        raise UsageError(f"image {name!r} is not on the Docker engine, and pull is 'never'")
    try:
        engine.translated(engine.api.inspect_distribution, name)
    except EngineError as error:
        raise UsageError(f"image {name!r} is neither on the Docker engine nor to be had: {error}") from error
    except ServiceUnreachableError as error:  # the engine has answered before: it waits for the registry
        raise ServiceUnreachableError(
            f"image {name!r} is not on the Docker engine, and asking its registry for it came to nothing: {error}"
        ) from error
