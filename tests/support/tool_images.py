"""Images with what tasks and agents need, made of this machine's own files."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import docker
from base_image import import_base_image
from docker_engine import give_up, require_engine

PYTHON_IMAGE = "agentcompass-test-python:1"
"""Python, bash, git, and the small tools of busybox."""
OFFICIAL_NAME = "swebench/sweb.eval.x86_64.fixture_1776_calc-1"
"""The name under which SWE-bench would publish the image of the instance ``fixture__calc-1``."""
_PROGRAMS = ("busybox", "bash", "git")
_BASHRC = "export SWE_BENCH_ENVIRONMENT=active\n"
_DOCKERFILE = f"""\
FROM {PYTHON_IMAGE}
ENV HOME=/root
COPY root /
RUN cd /testbed && git init -q . && git config user.email f@example.com && git config user.name f && \\
    git add -A && git commit -q -m start
WORKDIR /testbed
"""
_CALC = "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return 2 * a\n"


def python_image() -> str:
    """The name of :data:`PYTHON_IMAGE`, which is made when the engine does not have it."""
    client = require_engine()
    if not client.images.list(PYTHON_IMAGE):
        missing = [name for name in _PROGRAMS if shutil.which(name) is None]
        if missing:
            give_up(f"an image with Python is made of this machine's {', '.join(missing)}")
        busybox = str(shutil.which("busybox"))
        listed = subprocess.run(
            [busybox, "--list"], capture_output=True, check=True, text=True
        ).stdout.split()
        links = {name: "busybox" for name in listed if name not in _PROGRAMS}
        with tempfile.TemporaryDirectory() as folder:
            import_base_image(Path(folder), PYTHON_IMAGE, _PROGRAMS, links)
    return PYTHON_IMAGE


def official_image(client: docker.DockerClient) -> str:
    """An image of the official name and make: the repository in ``/testbed``, its environment in ``~/.bashrc``."""
    python_image()
    name = f"{OFFICIAL_NAME}:latest"
    if not client.images.list(name):
        files = {"Dockerfile": _DOCKERFILE, "root/testbed/calc.py": _CALC, "root/root/.bashrc": _BASHRC}
        client.images.build(fileobj=_context(files), custom_context=True, tag=name, rm=True)
    return name


def _context(files: dict[str, str]) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    buffer.seek(0)
    return buffer
