"""A base image with Python, made of this machine's own files: no registry is asked.

It has the interpreter that runs the tests, the libraries that it needs, and the commands that the
Dockerfile uses.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

COMMANDS = ("sh", "mkdir", "chown", "rm", "env", "uname", "ls", "cat", "id")
WANTED_BY_PACKAGES = (
    *("libstdc++.so.6", "libgcc_s.so.1", "libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2"),
    *("libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"),
)
"""Libraries that compiled code of installed packages is linked with, as far as this machine has them."""
_LIBRARY = re.compile(r"(?:=> )?(/\S+) \(0x")


def reason_for_no_engine() -> str:
    """Why no image can be built here; empty when one can."""
    if shutil.which("docker") is None:
        return "the docker command is not installed"
    done = subprocess.run(["docker", "version"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"no Docker engine answers: {done.stderr.strip().splitlines()[-1]}"


def import_base_image(
    folder: Path, tag: str, commands: Sequence[str] = COMMANDS, links: Mapping[str, str] | None = None
) -> None:
    """Make the image ``tag``, with links in ``/bin`` beside the commands. Raises ``CalledProcessError``."""
    archive = folder / "base.tar"
    home = Path(sys.base_prefix)
    programs = [Path(shutil.which(name) or "") for name in commands]
    with tarfile.open(archive, "w") as tar:
        tar.add(home, filter=_needed)
        for name, program in zip(commands, programs, strict=True):
            tar.add(program.resolve(), f"bin/{name}")
        for name, target in (links or {}).items():
            _link(tar, f"bin/{name}", target)
        for library in sorted(_libraries([home, *programs])):
            tar.add(library.resolve(), str(library))
        for name in ("/etc/ssl/certs/ca-certificates.crt", "/etc/nsswitch.conf"):
            if Path(name).exists():
                tar.add(Path(name).resolve(), name)
        _write(folder, tar, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
        _write(folder, tar, "etc/group", "root:x:0:\n")
        _link(tar, "usr/bin/python3", str(Path(sys.executable).resolve()))
        item = tarfile.TarInfo("tmp")
        item.type, item.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(item)
    change = "ENV PATH=/usr/bin:/bin"
    subprocess.run(
        ["docker", "import", "--change", change, str(archive), tag], check=True, capture_output=True
    )
    archive.unlink()


@contextlib.contextmanager
def wheels(folder: Path, requirement: str) -> Iterator[Path]:
    """A folder with everything that installing ``requirement`` needs, from wherever pip gets packages here."""
    pip = [sys.executable, "-m", "pip"]
    if subprocess.run([*pip, "--version"], capture_output=True, check=False).returncode:
        pip = [shutil.which("pip") or "pip", "--python", sys.executable]
    house = folder / "wheels"
    command = [*pip, "download", "--quiet", "--dest", str(house), requirement, "setuptools>=77", "wheel"]
    subprocess.run(command, check=True, capture_output=True)
    yield house


def _needed(item: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Of the interpreter: no tests, no caches, and of installed packages pip's own wheel (ensurepip) only."""
    left_out = ("/test", "/__pycache__", "/site-packages", "/idlelib", "/share")
    return None if any(f"{part}/" in f"/{item.name}/" for part in left_out) else item


def _libraries(places: list[Path]) -> set[Path]:
    """What the dynamic linker loads for programs and extension modules."""
    files = [place for place in places if place.is_file()]
    for place in places:
        if place.is_dir():
            files += [*place.glob("bin/python3*"), *place.glob("lib/python3*/lib-dynload/*.so")]
            files += place.glob("lib/*.so*")
    found: set[Path] = set()
    for file in files:
        done = subprocess.run(["ldd", str(file)], capture_output=True, text=True, check=False)
        found |= {Path(name) for name in _LIBRARY.findall(done.stdout)}
    for name in WANTED_BY_PACKAGES:
        for place in (Path("/lib"), Path("/usr/lib")):
            found |= set(place.glob(f"*-linux-gnu/{name}"))
    return {library for library in found if not library.is_relative_to(sys.base_prefix)}


def _write(folder: Path, tar: tarfile.TarFile, name: str, text: str) -> None:
    file = folder / "text"
    file.write_text(text)
    tar.add(file, name)
    file.unlink()


def _link(tar: tarfile.TarFile, name: str, target: str) -> None:
    item = tarfile.TarInfo(name)
    item.type, item.linkname, item.mode = tarfile.SYMTYPE, target, 0o777
    tar.addfile(item)


def remove_images(*tags: str) -> None:
    """Remove images that tests made."""
    subprocess.run(["docker", "rmi", "--force", *tags], check=False, capture_output=True, env=os.environ)
