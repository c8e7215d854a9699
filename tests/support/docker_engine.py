"""A real Docker engine for the tests, and base images that need no registry.

The engine is the one that ``DOCKER_HOST`` names, or the machine's own.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import shutil
import subprocess
import tarfile
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from agentcompass.contracts import EnvironmentSpec, NetworkPolicy, OpenRequest

IMAGE = "agentcompass-test-busybox:1"
"""A shell and the small tools, statically linked; a user ``agent`` with the id 1000."""
NON_ROOT_IMAGE = "agentcompass-test-busybox-user:1"
SHELL_LESS_IMAGE = "agentcompass-test-empty:1"
_PASSWD = b"root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n"
_GROUP = b"root:x:0:\nagent:x:1000:\n"


@functools.cache
def engine() -> docker.DockerClient | str:
    """A client, or why there is none."""
    try:
        client = docker.from_env(version="auto", timeout=60)
        client.ping()
    except docker.errors.DockerException as error:
        return f"no Docker engine answers: {error}"
    return client


def require_engine() -> docker.DockerClient:
    """A client with the base images in place; without an engine a test fails in CI and is skipped elsewhere."""
    found = engine()
    if isinstance(found, str):
        give_up(found)
        raise AssertionError
    make_images(found)
    return found


def give_up(reason: str) -> None:
    """A component that CI installs is missing."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def make_images(client: docker.DockerClient) -> None:
    """Import what is not there yet; some two seconds the first time."""
    known = {tag for image in client.images.list("agentcompass-test-*") for tag in image.tags}
    if {IMAGE, NON_ROOT_IMAGE, SHELL_LESS_IMAGE} <= known:
        return
    busybox = shutil.which("busybox")
    if busybox is None or b"statically" not in _described(busybox):
        give_up("the base images of the Docker tests need a static busybox (Debian: busybox-static)")
    _import(client, IMAGE, _busybox_root(Path(str(busybox)).resolve()))
    _import(
        client,
        NON_ROOT_IMAGE,
        _busybox_root(Path(str(busybox)).resolve()),
        ["USER agent", "WORKDIR /home/agent"],
    )
    _import(client, SHELL_LESS_IMAGE, _archive({"empty": b""}, {}))


def _described(program: str) -> bytes:
    answer = subprocess.run(["ldd", program], capture_output=True, check=False)
    text = answer.stdout + answer.stderr
    return b"statically" if b"not a dynamic executable" in text or b"statically" in text else b""


def _import(client: docker.DockerClient, name: str, root: bytes, changes: list[str] | None = None) -> None:
    repository, _, tag = name.partition(":")
    client.api.import_image_from_data(root, repository=repository, tag=tag, changes=changes)


def _busybox_root(busybox: Path) -> bytes:
    listed = subprocess.run([busybox, "--list"], capture_output=True, check=True).stdout.decode().split()
    files = {"bin/busybox": busybox.read_bytes(), "etc/passwd": _PASSWD, "etc/group": _GROUP}
    return _archive(files, {f"bin/{name}": "busybox" for name in listed if name != "busybox"})


def _archive(files: dict[str, bytes], links: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, mode, owner in (("tmp", 0o1777, 0), ("root", 0o700, 0), ("home/agent", 0o755, 1000)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, mode, owner, owner
            tar.addfile(entry)
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    return buffer.getvalue()


def containers_of(client: docker.DockerClient, **labels: str) -> list[str]:
    """Ids of our containers, running or not, with these labels of an opening."""
    filters = {"label": [f"agentcompass.label.{name}={value}" for name, value in labels.items()]}
    return [container["Id"] for container in client.api.containers(all=True, filters=filters)]


@contextlib.contextmanager
def counting_creations(client: docker.DockerClient) -> Iterator[Callable[[str], int]]:
    """While it is entered: how many containers were made for a launch.

    Counted as they are made, because an engine remembers its latest 256 events only.
    """
    stream = client.events(filters={"type": "container", "event": "create"}, decode=True)
    launches: list[str] = []

    def listen() -> None:
        for event in stream:
            launches.append(event["Actor"]["Attributes"].get("agentcompass.label.launch", ""))

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        yield launches.count
    finally:
        stream.close()
        listener.join()


def open_request(environment_id: str = "", **changes: Any) -> OpenRequest:
    """A request for a sandbox of a new id, or of the given one."""
    values: dict[str, Any] = {
        "environment_id": environment_id or f"ac-docker-test-{uuid.uuid4().hex[:12]}",
        "spec": EnvironmentSpec(id="docker"),
        "network_policy": NetworkPolicy(network_mode="no-network"),
        "labels": {"launch": "docker-test"},
    }
    return OpenRequest(**(values | changes))
