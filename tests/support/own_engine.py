"""A Docker engine of the tests' own: on TCP with client certificates, on a small disk with quotas."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import requests
from command_line import wait_for
from docker_engine import give_up, make_images
from tls_proxy import Authority

_DISK_BYTES = 512 * 1024**2
_START_SECONDS = 60.0
_API_VERSION = "1.40"
_ADD_BRIDGE, _REMOVE_BRIDGE, _SET_FLAGS = 0x89A0, 0x89A1, 0x8914
"""``SIOCBRADDBR``, ``SIOCBRDELBR``, ``SIOCSIFFLAGS`` of Linux."""


@dataclass(frozen=True)
class OwnEngine:
    """A running engine."""

    address: str
    certificates: Path
    """``ca.pem``, ``cert.pem``, ``key.pem`` of somebody who may use it."""
    on_quotas: bool
    """Whether its storage can limit what a container writes."""

    @property
    def variables(self) -> dict[str, str]:
        """What tells programs of it."""
        return {
            "DOCKER_HOST": self.address,
            "DOCKER_TLS_VERIFY": "1",
            "DOCKER_CERT_PATH": str(self.certificates),
        }


@contextlib.contextmanager
def own_engine(folder: Path, port: int) -> Iterator[OwnEngine]:
    """Start one; without ``dockerd`` or root a test is skipped, and fails in CI."""
    if shutil.which("dockerd") is None or os.geteuid() != 0:
        give_up("an engine of one's own needs dockerd (Debian: docker.io) and root")
    authority = Authority(folder)
    server = authority.issue("server")
    with (
        _own_bridge(f"actest{port}") as bridge,
        _quota_disk(folder) as disk,
        (folder / "dockerd.log").open("wb") as log,
    ):
        engine = subprocess.Popen(
            [
                *("dockerd", "--host", f"tcp://127.0.0.1:{port}", "--tlsverify", "--bridge", bridge),
                *("--tlscacert", str(authority.certificate)),
                *("--tlscert", str(server.certificate), "--tlskey", str(server.key)),
                *("--data-root", str(disk or folder / "data"), "--exec-root", str(folder / "exec")),
                *("--pidfile", str(folder / "pid")),
                *(() if disk else ("--storage-driver", "vfs")),
                *("--default-address-pool", "base=198.19.240.0/20,size=26"),
            ],
            stdout=log,
            stderr=log,
        )
        try:
            found = OwnEngine(
                f"tcp://127.0.0.1:{port}", _client_files(authority, folder, "client"), disk is not None
            )
            make_images(wait_for("the engine", lambda: _client(engine, found, folder), _START_SECONDS))
            yield found
        finally:
            engine.terminate()
            engine.wait()


def _client(engine: subprocess.Popen[bytes], found: OwnEngine, folder: Path) -> docker.DockerClient | None:
    if engine.poll() is not None:
        raise AssertionError((folder / "dockerd.log").read_text(errors="replace")[-2000:])
    tls = docker.tls.TLSConfig(
        (str(found.certificates / "cert.pem"), str(found.certificates / "key.pem")),
        str(found.certificates / "ca.pem"),
        verify=True,
    )
    client = docker.DockerClient(found.address, version=_API_VERSION, tls=tls, timeout=60)
    client.api.trust_env = False  # or a bundle of this machine's would be believed instead
    try:
        client.ping()
    except (docker.errors.DockerException, requests.exceptions.ConnectionError):
        return None
    return client


def _client_files(authority: Authority, folder: Path, name: str) -> Path:
    """A folder as ``DOCKER_CERT_PATH`` wants it."""
    place = folder / f"{name}-certificates"
    place.mkdir()
    made = authority.issue(name)
    for source, target in (
        (authority.certificate, "ca.pem"),
        (made.certificate, "cert.pem"),
        (made.key, "key.pem"),
    ):
        shutil.copy(source, place / target)
    return place


@contextlib.contextmanager
def _own_bridge(name: str) -> Iterator[str]:
    """A bridge for one engine: two would fight for the usual one, and one without any removes that of the other."""
    padded = name.encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _ADD_BRIDGE, padded)
        try:
            yield name
        finally:
            down = struct.pack("16sH14x", padded, 0)
            fcntl.ioctl(control, _SET_FLAGS, down)
            fcntl.ioctl(control, _REMOVE_BRIDGE, padded)


@contextlib.contextmanager
def _quota_disk(folder: Path) -> Iterator[Path | None]:
    """A small btrfs, whose driver limits what a container writes; ``None`` where the kernel has none."""
    if shutil.which("mkfs.btrfs") is None:
        give_up("a disk with quotas needs mkfs.btrfs (Debian: btrfs-progs)")
    image, place = folder / "disk.img", folder / "disk"
    with image.open("wb") as file:
        file.truncate(_DISK_BYTES)
    place.mkdir()
    subprocess.run(["mkfs.btrfs", "-q", str(image)], check=True, capture_output=True)
    mounted = subprocess.run(
        ["mount", "-o", "loop", str(image), str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True, capture_output=True)
