"""Getting the image of a sandbox: it is there, or it is pulled, or it is built."""

from __future__ import annotations

import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ....contracts.errors import UsageError
from ....contracts.request import EnvironmentSetup
from .building import build
from .container import ImageFacts
from .engine import Engine, EngineError
from .image_facts import find_image
from .params import DockerParams
from .transfer import Transfer

if TYPE_CHECKING:
    from requests import Response

_log = logging.getLogger(__name__)
_REPORT_SECONDS = 5.0


def matches(image: ImageFacts, platform: str | None) -> bool:
    """Whether an image is of the wanted platform, as far as it says."""
    if platform is None or not image.architecture:
        return True
    names = {"x86_64": "amd64", "aarch64": "arm64"}
    wanted = platform.split("/")[1]
    return names.get(wanted, wanted) == names.get(image.architecture, image.architecture)


def pull(engine: Engine, name: str, platform: str | None, transfer: Transfer) -> None:
    """Pull an image, and tell how far it is. Blocks. Raises ``UsageError`` when there is no such image."""
    from docker import auth
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(name)
    registry, _ = auth.resolve_repository_name(repository)
    header = auth.get_config_header(engine.api, registry)
    params = {"fromImage": repository, "tag": tag or "latest"} | ({"platform": platform} if platform else {})

    def send() -> Response:
        headers = {"X-Registry-Auth": header} if header else {}
        return engine.request(
            "POST", "/images/create", params=params, stream=True, timeout=None, headers=headers
        )

    _log.info("pulling image %s", name)
    layers: dict[str, tuple[int, int]] = {}
    told = time.monotonic()
    try:
        for event in transfer.events(send):
            detail = event.get("progressDetail") or {}
            if "id" in event and detail.get("total"):
                layers[event["id"]] = (int(detail.get("current") or 0), int(detail["total"]))
            if time.monotonic() - told > _REPORT_SECONDS:
                told = time.monotonic()
                done, total = (sum(pair[index] for pair in layers.values()) for index in (0, 1))
                _log.info("pulling image %s: %.0f of %.0f MB", name, done / 1e6, total / 1e6)
    except EngineError as error:
        raise UsageError(f"image {name!r} is not on the engine and cannot be pulled: {error}") from error


def provide_image(
    engine: Engine, params: DockerParams, setup: EnvironmentSetup, transfer: Transfer
) -> ImageFacts:
    """The image of an opening, pulled or built when it has to be. Blocks.

    Raises ``UsageError`` when there is none to be had.
    """
    if setup.build_context is not None:
        return build(engine, Path(setup.build_context), setup.dockerfile, params.platform, transfer)
    name = setup.image or params.image
    if not name:
        raise UsageError(
            "docker needs an image: the task names none, and neither setup.image nor the parameter image is set"
        )
    found = None if params.pull == "always" else find_image(engine, name)
    if found is not None and not matches(found, params.platform) and params.pull != "never":
        found = None
    if found is None and params.pull != "never":
        pull(engine, name, params.platform, transfer)
        found = find_image(engine, name)
    if found is None:
        raise UsageError(f"image {name!r} is not on the engine, and pull is 'never'")
    if not matches(found, params.platform):
        raise UsageError(f"image {name!r} is for {found.architecture}, not for {params.platform}")
    return found
