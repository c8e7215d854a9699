"""Volumes of the services of one sandbox, and what of the task's folder goes into their containers.

Nothing of the machine is ever mounted. A folder of the task that some service may write to is a
volume with its content, which all services that name it share; anything else is a copy.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from ....contracts.environment import OpenRequest
from ....contracts.errors import UsageError
from ..shared.naming import file_name
from ..shared.packing import Owner
from .archive import ContainerFiles
from .compose import ComposeProject, Mount
from .container import ID_LABEL, ImageFacts, container_name
from .engine import Engine
from .files import upload

_FILLED = "/volume"


def volumes_of(engine: Engine, environment_id: str) -> list[str]:
    """The names of the volumes of one sandbox. Blocks."""
    filters = {"label": f"{ID_LABEL}={environment_id}"}
    found = engine.translated(engine.api.volumes, filters=filters)
    return [volume["Name"] for volume in found.get("Volumes") or []]


class Volumes:
    """The volumes of one opening. The methods that say so block."""

    def __init__(
        self, engine: Engine, request: OpenRequest, project: ComposeProject, labels: dict[str, str]
    ) -> None:
        self._engine = engine
        self._request = request
        self._labels = labels
        self._project = project
        self._prefix = container_name(request.environment_id, 0)

    def make(self, image: ImageFacts) -> None:
        """Make and fill those that are missing; for an opening that has no container yet. Blocks.

        Raises ``UsageError`` when a stranger's volume is in the way.
        """
        mounts = [mount for service in self._project.services.values() for mount in service.volumes]
        for name in sorted({name for mount in mounts if (name := self._name_of(mount))}):
            made = self._engine.translated(
                self._engine.api.create_volume, name, driver="local", labels=self._labels
            )
            if (made.get("Labels") or {}).get(ID_LABEL) != self._request.environment_id:
                raise UsageError(f"a volume {name!r} of somebody else is in the way; remove it")
        for folder in self._project.written_folders:
            self._fill(folder, image)

    def binds(self, service: str) -> list[str]:
        """The volumes of a service as the engine wants them."""
        found = []
        for mount in self._project.services[service].volumes:
            name = self._name_of(mount)
            if name:
                # What an image has at that place is hidden by a folder, and copied into a volume.
                mode = ("ro" if mount.read_only else "rw") + (",nocopy" if mount.type == "bind" else "")
                found.append(f"{name}:{mount.target}:{mode}")
        return found

    def nameless(self, service: str) -> list[str]:
        """Paths for which the engine makes a volume that goes with the container."""
        mounts = self._project.services[service].volumes
        return [mount.target for mount in mounts if mount.type == "volume" and not mount.source]

    def in_memory(self, service: str) -> dict[str, str]:
        """Paths in memory, with their options."""
        found = self._project.services[service]
        short = {path: options for path, _, options in (item.partition(":") for item in found.tmpfs)}
        return short | {mount.target: "" for mount in found.volumes if mount.type == "tmpfs"}

    def copy_into(self, service: str, container: str) -> None:
        """Put the copies of a service into its container, which has not been started. Blocks."""
        files = ContainerFiles(self._engine, container)
        for mount in self._project.services[service].volumes:
            if mount.type == "bind" and self._name_of(mount) is None:
                upload(files, self._project.local(mount.source), mount.target, Owner(), threading.Event())

    def _name_of(self, mount: Mount) -> str | None:
        """The engine's volume behind a mount; ``None`` for copies, memory and volumes without a name."""
        if mount.type == "volume":
            return f"{self._prefix}.v-{mount.source}" if mount.source else None
        if mount.type == "bind" and self._project.local(mount.source) in self._project.written_folders:
            return self._folder_volume(self._project.local(mount.source))
        return None

    def _folder_volume(self, folder: Path) -> str:
        relative = folder.relative_to(self._project.folder.resolve()).as_posix()
        return f"{self._prefix}.f-{file_name(relative)}"

    def _fill(self, folder: Path, image: ImageFacts) -> None:
        """By a container that is never started: files reach a volume in no other way."""
        api = self._engine.api
        binds = [f"{self._folder_volume(folder)}:{_FILLED}:rw,nocopy"]
        config = api.create_container_config(
            image=image.id,
            command=["true"],
            labels=self._labels,
            host_config=api.create_host_config(network_mode="none", binds=binds),
        )
        made: dict[str, Any] = self._engine.translated(api.create_container_from_config, config)
        try:
            upload(ContainerFiles(self._engine, made["Id"]), folder, _FILLED, Owner(), threading.Event())
        finally:
            self._engine.translated(api.remove_container, made["Id"], force=True)
