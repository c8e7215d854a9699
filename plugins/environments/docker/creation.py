"""Creating the container of an opening, or taking up the one that an earlier try has created."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from ....contracts.environment import OpenRequest
from ....contracts.errors import UsageError
from ..shared.packing import Owner
from .container import ID_LABEL, VARIABLES, ImageFacts, SandboxData, container_name, creation_config
from .engine import CONFLICT, NOT_FOUND, Engine, EngineError
from .files import write_file
from .membership import Membership
from .params import DockerParams
from .public_network import public_network
from .sandbox import Sandbox

_TURNS = 6
"""Names that are tried when strangers hold the first ones."""
_TRIES = 50
_PAUSE_SECONDS = 0.1


class Creation:
    """One opening. ``made`` is what it has created itself, complete or not."""

    def __init__(
        self,
        engine: Engine,
        params: DockerParams,
        request: OpenRequest,
        image: ImageFacts,
        membership: Membership | None = None,
        fill: Callable[[str], None] | None = None,
    ) -> None:
        """``fill`` puts files into the new container, by its id, before it is started."""
        self.made: list[str] = []
        self.found = False
        """True when the running container of an earlier try was taken up."""
        self._engine = engine
        self._params = params
        self._request = request
        self._image = image
        self._membership = membership
        self._fill = fill

    def run(self) -> Sandbox:
        """The running container. Blocks. Raises ``UsageError`` for what the engine cannot start."""
        for _ in range(_TRIES):
            container = self._create_or_find()
            if container is not None:
                return self._started(container)
            time.sleep(_PAUSE_SECONDS)  # a name is taken a little before and after its container exists
        raise OSError(f"the container of {self._request.environment_id!r} vanishes as soon as it is made")

    def _create_or_find(self) -> str | None:
        """The id of the container; ``None`` when one was in the way and is gone now."""
        network = public_network(self._engine)
        api = self._engine.api
        config = creation_config(api, self._request, self._params, self._image, network, self._membership)
        for turn in range(_TURNS):
            name = container_name(self._request.environment_id, turn)
            try:
                made = self._engine.translated(
                    api.create_container_from_config, config, name, self._params.platform
                )
            except EngineError as error:
                if error.status != CONFLICT:
                    raise _refused(self._image, error) from error
            else:
                self.made.append(made["Id"])
                container: str = made["Id"]
                return container
            facts = self._facts(name)
            if facts is None:
                return None
            if (facts["Config"]["Labels"] or {}).get(ID_LABEL) == self._request.environment_id:
                return self._taken_up(facts)
        raise UsageError(
            f"the names {container_name(self._request.environment_id, 0)} to .{_TURNS - 1} are taken by containers "
            "of somebody else; remove them"
        )

    def _taken_up(self, facts: dict[str, Any]) -> str | None:
        """Our own container, unless it is dead: then it is removed."""
        container: str = facts["Id"]
        state = facts["State"]
        self.found = bool(state["Running"])
        if state["Running"] or state["Status"] == "created":
            return container
        try:
            self._engine.translated(self._engine.api.remove_container, container, force=True, v=True)
        except EngineError as error:
            if error.status not in (NOT_FOUND, CONFLICT):
                raise
        return None

    def _started(self, container: str) -> Sandbox:
        facts = self._facts(container)
        if facts is None:
            raise OSError(
                f"the container of {self._request.environment_id!r} was removed while it was opened"
            )
        sandbox = Sandbox(self._engine, self._request.environment_id, SandboxData.of(facts))
        if self._request.env_variables:
            # A session that is taken up elsewhere needs them, and neither the handle nor the engine's
            # listing may hold them.
            content = json.dumps(self._request.env_variables).encode("ascii")
            write_file(sandbox.files, VARIABLES, content, 0o600, Owner())
        if not self.found:
            if self._fill is not None:
                self._fill(container)
            try:
                self._engine.translated(self._engine.api.start, container)
            except EngineError as error:
                raise _refused(self._image, error) from error
        return sandbox

    def _facts(self, container: str) -> dict[str, Any] | None:
        try:
            facts: dict[str, Any] = self._engine.translated(self._engine.api.inspect_container, container)
        except EngineError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        return facts


def _refused(image: ImageFacts, error: EngineError) -> Exception:
    """What a refusal to create or start means."""
    text = str(error)
    if "executable file not found" in text or "no such file or directory: unknown" in text:
        return UsageError(
            f"image {image.name} has no shell: docker needs images with sh, sleep and the usual tools"
        )
    lacking = {
        "could not select device driver": "resources.gpu: the Docker engine has no GPU runtime "
        "(nvidia-container-toolkit)",
        "storage-opt": "resources.storage_mb cannot be enforced by this Docker engine",
        "storage option": "resources.storage_mb cannot be enforced by this Docker engine",
    }
    for sign, meaning in lacking.items():
        if sign in text:
            return UsageError(f"{meaning}: {text}")
    if 400 <= error.status < 500:
        return UsageError(f"the engine refuses a container of image {image.name}: {text}")
    return OSError(f"no container of image {image.name} can be started: {text}")
