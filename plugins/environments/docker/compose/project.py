"""A compose file as a whole: its services, checked against one another and against its folder."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ....params import describe_validation_error
from . import refusals
from .document import LARGEST_BYTES, LOGS_OF_MACHINE, ComposeError, parse
from .model import Condition, Mount, Service

MAIN = "main"
"""The service in which the agent works and the verifier runs."""
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")
_MOST_SERVICES = 32


class _Volume(BaseModel):
    """A named volume: drivers and their options could be a folder of the machine."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    labels: Any = None


class _Network(BaseModel):
    """A declared network."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    driver: str = Field(default="bridge", pattern="^(bridge|default)$")
    internal: bool = False
    labels: Any = None


class _File(BaseModel):
    """The whole file; ``version`` and ``name`` mean nothing here."""

    model_config = ConfigDict(extra="forbid")

    version: Any = None
    name: Any = None
    services: dict[str, Service]
    volumes: dict[str, _Volume | None] = Field(default_factory=dict)
    networks: dict[str, _Network | None] = Field(default_factory=dict)


@dataclass(frozen=True)
class ComposeProject:
    """The services of a task in the order in which they start; ``main`` is always among them."""

    folder: Path
    services: dict[str, Service]

    @property
    def main(self) -> Service:
        """The service of the agent."""
        return self.services[MAIN]

    def aliases(self, name: str) -> list[str]:
        """The names under which the others find a service."""
        service = self.services[name]
        more = [alias for entry in service.networks.values() for alias in entry.aliases]
        return list(dict.fromkeys(filter(None, [name, service.container_name, *more])))

    @property
    def written_folders(self) -> list[Path]:
        """Folders of the task that some service may write to, sorted."""
        mounts = [mount for service in self.services.values() for mount in service.volumes]
        found = {self.local(mount.source) for mount in mounts if mount.type == "bind" and not mount.read_only}
        return sorted(path for path in found if path.is_dir())

    def local(self, path: str) -> Path:
        """A path of the file on this machine. Raises ``ComposeError`` when it leaves the folder."""
        return inside(self.folder, path, path)

    def awaited(self, name: str, condition: Condition) -> bool:
        """Whether any service waits for that at ``name``."""
        found = (service.depends_on.get(name) for service in self.services.values())
        return any(dependency is not None and dependency.condition is condition for dependency in found)


def read_project(file: Path) -> ComposeProject:
    """The project of a compose file. Blocks. Raises ``ComposeError`` for what cannot or may not be run."""
    try:
        with file.open("rb") as stream:
            data = stream.read(LARGEST_BYTES + 1)
        text = data.decode("utf-8")
    except OSError as error:
        raise ComposeError(f"it cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ComposeError("it is not UTF-8") from None
    return project_of(text, file.parent)


def project_of(text: str, folder: Path) -> ComposeProject:
    """The project that ``text`` describes, with paths below ``folder``. Raises ``ComposeError``."""
    value = parse(text)
    refusals.require_known("", value, _File.model_fields, refusals.TOP)
    services = value.get("services")
    if not isinstance(services, dict) or not services:
        raise ComposeError("it has no services")
    if len(services) > _MOST_SERVICES:
        raise ComposeError(f"it has more than {_MOST_SERVICES} services")
    for name, service in services.items():
        if not _NAME.match(name):
            raise ComposeError(f"services: {name!r} is not a name")
        if not isinstance(service, dict | None):
            raise ComposeError(f"services.{name} is no mapping")
        refusals.require_known(f"services.{name}", service or {}, Service.model_fields, refusals.SERVICE)
    value["services"] = {MAIN: {}} | {name: service or {} for name, service in services.items()}
    try:
        found = _File.model_validate(value)
    except ValidationError as error:
        raise ComposeError(describe_validation_error(error, _File, "").removeprefix(": ")) from None
    for name in found.volumes:
        if not _NAME.match(name):
            raise ComposeError(f"volumes: {name!r} is not a name")
    _require_one_network(found)
    for name, service in found.services.items():
        _check_service(name, service, found, folder)
    return ComposeProject(folder, {name: found.services[name] for name in _start_order(found.services)})


def _check_service(name: str, service: Service, file: _File, folder: Path) -> None:
    place = f"services.{name}"
    if name != MAIN and not service.image and service.build is None:
        raise ComposeError(f"{place} has neither image nor build")
    if service.build is not None:
        context = inside(folder, service.build.context, f"{place}.build.context")
        if not os.path.isdir(context):
            raise ComposeError(
                f"{place}.build.context: {service.build.context[:60]!r} is no folder of the task"
            )
        if service.build.dockerfile is not None:
            inside(context, service.build.dockerfile, f"{place}.build.dockerfile")
    for other, dependency in service.depends_on.items():
        if other not in file.services:
            raise ComposeError(f"{place}.depends_on: there is no service {other!r}")
        if other == MAIN and dependency.condition is not Condition.STARTED:
            raise ComposeError(f"{place}.depends_on: nobody can wait for {MAIN} but for its start")
    service.volumes = [mount for mount in service.volumes if not _is_own_log(name, mount)]
    for mount in service.volumes:
        _check_mount(f"{place}.volumes", mount, file, folder)


def _is_own_log(name: str, mount: Mount) -> bool:
    """Harbor's folders for logs, which the agent's sandbox has without a mount."""
    return name == MAIN and mount.source == LOGS_OF_MACHINE and mount.target.startswith("/logs/")


def _check_mount(place: str, mount: Mount, file: _File, folder: Path) -> None:
    if mount.type == "bind":
        path = inside(folder, mount.source, place)
        if not os.path.isdir(path) and not os.path.isfile(path):
            raise ComposeError(f"{place}: {mount.source[:60]!r} is neither a file nor a folder of the task")
        if path.is_dir() or mount.read_only:
            return
        writers = [
            name
            for name, service in file.services.items()
            for other in service.volumes
            if other.type == "bind" and not other.read_only and inside(folder, other.source, place) == path
        ]
        if len(writers) > 1:
            raise ComposeError(f"{place}: the file {mount.source!r} cannot be written to by several services")
    elif mount.type == "volume" and mount.source and mount.source not in file.volumes:
        raise ComposeError(f"{place}: the volume {mount.source!r} is not declared in volumes")


def _require_one_network(file: _File) -> None:
    """Services see all others: a file that separates them would not be what it says."""
    used = {
        name: frozenset(service.networks) or frozenset(["default"]) for name, service in file.services.items()
    }
    for name, networks in used.items():
        for network in sorted(networks - set(file.networks) - {"default"}):
            raise ComposeError(
                f"services.{name}.networks: the network {network!r} is not declared in networks"
            )
    if len(set(used.values())) > 1:
        raise ComposeError("networks: services that do not share all their networks are not supported")


def _start_order(services: dict[str, Service]) -> list[str]:
    order: list[str] = []
    left = dict(services)
    while left:
        ready = [name for name, service in left.items() if not set(service.depends_on) & set(left)]
        if not ready:
            raise ComposeError(f"depends_on: {', '.join(sorted(left))} wait for one another")
        for name in ready:
            order.append(name)
            del left[name]
    return order


def inside(folder: Path, path: str, place: str) -> Path:
    """A path below ``folder``, links followed. Raises ``ComposeError`` for one that leads out."""
    top = folder.resolve()
    try:
        found = (top / path).resolve()
    except (OSError, RuntimeError) as error:  # too long, or links in a circle
        raise ComposeError(f"{place}: {path[:60]!r} cannot be followed: {error}") from None
    if path.startswith(("/", "~", "<")) or "://" in path or not found.is_relative_to(top):
        raise ComposeError(f"{place}: {path!r} is not inside of the folder of the compose file")
    return found
