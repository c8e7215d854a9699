"""A real image registry on loopback: Debian's ``docker-registry``, with its data in a folder of the test.

Engines talk to 127.0.0.0/8 without TLS.
"""

from __future__ import annotations

import io
import json
import random
import shutil
import signal
import subprocess
import tarfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
from cluster import free_port
from docker_engine import IMAGE, give_up

USER, PASSWORD = "reader", "canary-4c1d"
NOISE_BYTES = 6_000_000
_HASHED = "$2b$05$xaIuJE5DMP4qNOsMgB1W8.KMGRGcYk7Md/48q6QS0mSHLUhXcRiBW"
"""Of ``PASSWORD``, as ``htpasswd -B`` writes it."""
_START_SECONDS = 30.0


class Registry:
    """A registry that runs between ``start`` and ``stop``, always at one address."""

    def __init__(self, folder: Path, *, closed: bool = False) -> None:
        """``closed``: it lets in only who knows ``USER`` and ``PASSWORD``."""
        program = shutil.which("docker-registry")
        if program is None:
            give_up("pulling is tested with a registry of our own (Debian: docker-registry)")
        self.address = f"127.0.0.1:{free_port()}"
        self._closed = closed
        self._command = [str(program), "serve", str(folder / "registry.json")]
        self._log = folder / "registry.log"
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "registry.json").write_text(json.dumps(self._settings(folder)))

    def _settings(self, folder: Path) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "version": "0.1",
            "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
            "http": {"addr": self.address},
        }
        if self._closed:
            (folder / "users").write_text(f"{USER}:{_HASHED}\n")
            settings["auth"] = {"htpasswd": {"realm": "test", "path": str(folder / "users")}}
        return settings

    def start(self) -> None:
        """Return when it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        end = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the registry does not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it; what was pushed stays. May be called twice."""
        if self._process is not None:
            self._process.terminate()
            self._process.send_signal(signal.SIGCONT)
            self._process.wait(30)
            self._process = None

    def freeze(self) -> None:
        """From now on connections are accepted and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def push(self, client: docker.DockerClient, repository: str, version: int = 1) -> str:
        """Put an image there whose bytes no other version has; its name, under which the engine has nothing."""
        name = f"{self.address}/{repository}"
        context = _context(random.Random(f"{name} {version}").randbytes(NOISE_BYTES))
        client.images.build(fileobj=context, custom_context=True, tag=f"{name}:1", rm=True)
        return self._moved(client, name, "1")

    def push_image(self, client: docker.DockerClient, image: str, repository: str) -> str:
        """Put an image of the engine there; its name, which the engine does not know."""
        name = f"{self.address}/{repository}"
        client.images.get(image).tag(name, "latest")
        return self._moved(client, name, "latest")

    def _moved(self, client: docker.DockerClient, name: str, tag: str) -> str:
        login = {"username": USER, "password": PASSWORD} if self._closed else None
        for event in client.api.push(name, tag=tag, stream=True, decode=True, auth_config=login):
            if "error" in event:
                raise RuntimeError(f"{name} cannot be pushed: {event['error']}")
        client.images.remove(f"{name}:{tag}")
        return f"{name}:{tag}"

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"http://{self.address}/v2/", timeout=5).close()
        except urllib.error.HTTPError as error:
            return error.code == 401
        except OSError:
            return False
        return True


@contextmanager
def serving(registry: Registry) -> Iterator[Registry]:
    """``registry`` while it runs."""
    try:
        registry.start()
        yield registry
    finally:
        registry.stop()


def _context(noise: bytes) -> io.BytesIO:
    """The base image and a file that nothing makes smaller."""
    files = {"Dockerfile": f"FROM {IMAGE}\nCOPY noise /noise\n".encode(), "noise": noise}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    buffer.seek(0)
    return buffer
