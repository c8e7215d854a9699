"""Building an image from a folder with a Dockerfile."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ....contracts.errors import UsageError
from ..shared import packing
from ..shared.packing import Owner
from .container import ImageFacts
from .engine import Engine, EngineError
from .image_facts import find_image
from .public_network import public_network
from .transfer import Transfer

if TYPE_CHECKING:
    from requests import Response

_log = logging.getLogger(__name__)
_REPOSITORY = "agentcompass-build"
_SHOWN_LINES = 15
_LOCKS: dict[str, threading.Lock] = {}
_LOCKS_LOCK = threading.Lock()


@dataclass(frozen=True)
class BuildOptions:
    """What a build is given beside its context; part of what the image is."""

    args: dict[str, str] = field(default_factory=dict)
    target: str | None = None
    """The stage to stop at; default: the last one."""

    def params(self) -> dict[str, str]:
        """For the engine; empty without options."""
        found = {"buildargs": json.dumps(self.args, sort_keys=True)} if self.args else {}
        return found | ({"target": self.target} if self.target else {})


_NO_OPTIONS = BuildOptions()


def build(
    engine: Engine,
    context: Path,
    dockerfile: str | None,
    platform: str | None,
    transfer: Transfer,
    options: BuildOptions = _NO_OPTIONS,
) -> ImageFacts:
    """The image of ``context``, built unless the engine has one of the same content. Blocks.

    The log is kept in ``$AGENTCOMPASS_HOME/logs/``. Raises ``UsageError`` with its end when it fails.
    """
    name = dockerfile or "Dockerfile"
    if not (context / name).is_file():
        raise UsageError(f"{context} has no {name} to build an image from")
    with tempfile.TemporaryFile() as archive:
        more = "".join(f"{key}={value}\0" for key, value in options.params().items())
        digest = hashlib.sha256(f"{name}\0{platform}\0{more}".encode())
        for piece in _context(context, name):
            digest.update(piece)
            archive.write(piece)
        tag = f"{_REPOSITORY}:{digest.hexdigest()[:24]}"
        with _lock_of(tag):  # many tasks of one content: the first one builds
            found = find_image(engine, tag)
            if found is None:
                _build(engine, archive, name, tag, platform, transfer, options)
                found = find_image(engine, tag)
    if found is None:
        raise OSError(f"the engine has built {tag} and does not know it")
    return found


def _build(
    engine: Engine,
    archive: IO[bytes],
    dockerfile: str,
    tag: str,
    platform: str | None,
    transfer: Transfer,
    options: BuildOptions,
) -> None:
    network = public_network(engine).id
    params: dict[str, Any] = {
        "t": tag,
        "dockerfile": dockerfile,
        "rm": "true",
        "forcerm": "true",
        "networkmode": network,
        **options.params(),
    }
    if platform:
        params["platform"] = platform
    archive.seek(0)

    def send() -> Response:
        headers = {"Content-Type": "application/x-tar"} | _credentials(engine)
        return engine.request(
            "POST", "/build", params=params, data=archive, headers=headers, stream=True, timeout=None
        )

    log = log_file(tag)
    _log.info("building image %s; log in %s", tag, log)
    lines: list[str] = []
    with log.open("w", encoding="utf-8") as stream:
        try:
            for event in transfer.events(send):
                text = str(event.get("stream") or event.get("status") or "")
                stream.write(text)
                lines = [*lines, *(line for line in text.splitlines() if line.strip())][-_SHOWN_LINES:]
        except EngineError as error:
            stream.write(f"\n{error}\n")
            shown = " | ".join([*lines, str(error)])
            raise UsageError(f"the image cannot be built (log in {log}): {shown[-1500:]}") from error


def log_file(tag: str) -> Path:
    """Where the log of a build is kept."""
    home = Path(os.environ.get("AGENTCOMPASS_HOME") or "~/.agentcompass").expanduser()
    folder = home / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{tag.replace(':', '-')}.log"


def _context(context: Path, dockerfile: str) -> Iterator[bytes]:
    """The build context as an archive that is the same for the same content."""
    from docker.utils import exclude_paths

    ignored = context / ".dockerignore"
    patterns = ignored.read_text(encoding="utf-8").splitlines() if ignored.is_file() else []
    wanted = [line.strip() for line in patterns if line.strip() and not line.startswith("#")]
    paths = exclude_paths(str(context), wanted, dockerfile=dockerfile)
    yield from packing.chosen(context, sorted(paths), Owner(modified=0), threading.Event())
    yield packing.END


def _credentials(engine: Engine) -> dict[str, str]:
    """For base images of private registries, as the docker command line sends them."""
    import base64

    known = engine.api._auth_configs.get_all_credentials()
    return (
        {"X-Registry-Config": base64.urlsafe_b64encode(json.dumps(known).encode()).decode()} if known else {}
    )


def _lock_of(tag: str) -> threading.Lock:
    with _LOCKS_LOCK:
        return _LOCKS.setdefault(tag, threading.Lock())
