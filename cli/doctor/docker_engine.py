"""The Docker engine, which runs of the environment ``docker`` need."""

from __future__ import annotations

import os
import shutil

from .finding import Finding, ok, warning

AREA = "environments"
NAME = "Docker engine"
TIMEOUT_SECONDS = 5
_LOW_BYTES = 5 * 1024**3


def check_docker() -> list[Finding]:
    """Whether the engine that ``DOCKER_HOST`` or the default names answers; nothing is pulled or run."""
    # Imported here: no other command pays for it.
    import docker
    from docker.errors import DockerException

    address = os.environ.get("DOCKER_HOST") or "the default socket"
    try:
        client = docker.from_env(timeout=TIMEOUT_SECONDS)
        try:
            version, about = client.version(), client.info()
        finally:
            client.close()
    except (DockerException, OSError) as error:  # requests' errors are OSErrors
        advice = "only runs with `--env docker` need it: start the engine, let this user use it, or set DOCKER_HOST"
        return [warning(AREA, NAME, f"{address} does not answer: {_reason(error)}", advice)]
    text = (
        f"{version.get('Version', '?')}, {about.get('Driver', '?')}, {about.get('NCPU', '?')} CPUs, {address}"
    )
    return [ok(AREA, NAME, text), *_disk(str(about.get("DockerRootDir") or ""))]


def _disk(root: str) -> list[Finding]:
    """Room where a local engine keeps its images; nothing for one on another machine."""
    if os.environ.get("DOCKER_HOST", "unix:").partition(":")[0] != "unix" or not os.path.isdir(root):
        return []
    free = shutil.disk_usage(root).free
    text = f"{root}: {free / 1024**3:.1f} GiB free"
    if free < _LOW_BYTES:
        return [warning(AREA, "Docker disk", text, "remove images that nothing needs: docker system prune")]
    return [ok(AREA, "Docker disk", text)]


def _reason(error: BaseException) -> str:
    """The innermost cause in one line; the SDK wraps it several times."""
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(str(text).split())[:200]
