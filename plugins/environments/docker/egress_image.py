"""The image of our helpers, egress proxy and keeper: the worker's own Python, as much of it as they use, or a given one."""

from __future__ import annotations

import encodings
import hashlib
import io
import json
import os
import platform
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from ....contracts.errors import UsageError
from .engine import Engine
from .image_facts import find_image

_FOLDER = "opt"
_REPOSITORY = "agentcompass-egress"
_LOADERS = (
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
)
_SURVEY_SECONDS = 60


def program() -> dict[str, bytes]:
    """The files of the helpers by their path."""
    return {
        f"{_FOLDER}/{name}/{entry.name}": entry.read_bytes()
        for name in ("egress", "keeper")
        for entry in sorted(files(f"{__package__}.{name}").iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".py")
    }


def ensure_image(engine: Engine, given: str | None) -> str:
    """The id of the proxy's image, made when the engine does not have it. Blocks.

    Raises ``UsageError`` when it cannot be made here.
    """
    digest = hashlib.sha256(f"{given} {sys.version} {sys.executable}".encode())
    for path, content in program().items():
        digest.update(path.encode() + content)
    tag = f"{_REPOSITORY}:{digest.hexdigest()[:16]}"
    found = find_image(engine, tag)
    if found is None:
        _make(engine, given, tag)
        found = find_image(engine, tag)
    if found is None:
        raise UsageError(f"the egress proxy's image {tag} was made and is not there")
    return found.id


def python_command(given: str | None, module: str = "egress") -> list[str]:
    """How a helper is started in that image."""
    own = os.path.realpath(sys.executable)
    return ["python3" if given else own, "-E", "-s", "-S", "-B", "-m", module]


def _make(engine: Engine, given: str | None, tag: str) -> None:
    repository, _, version = tag.partition(":")
    api = engine.api
    if given is None:
        _require_same_kind(engine)
        archive = _archive(program(), _own_python())
        params = {"fromSrc": "-", "repo": repository, "tag": version}
        engine.request("POST", "/images/create", params=params, data=archive).close()
        return
    if find_image(engine, given) is None:
        raise UsageError(f"egress_image {given!r} is not on the engine; pull it there first")
    made = engine.translated(api.create_container, given, entrypoint=["true"])
    try:
        engine.translated(api.put_archive, made["Id"], "/", _archive(program(), {}))
        engine.translated(api.commit, made["Id"], repository=repository, tag=version)
    finally:
        engine.translated(api.remove_container, made["Id"], force=True)


def _require_same_kind(engine: Engine) -> None:
    version = engine.translated(engine.api.version)
    names = {"x86_64": "amd64", "aarch64": "arm64"}
    own = names.get(platform.machine(), platform.machine())
    if not sys.platform.startswith("linux") or version["Os"] != "linux" or version["Arch"] != own:
        raise UsageError(
            f"network mode 'allowlist' needs an egress proxy, and this worker's Python ({sys.platform} {own}) does "
            f"not run on the engine ({version['Os']} {version['Arch']}): name an image with Python 3.11 or newer "
            "in the environment's parameter egress_image"
        )


def _own_python() -> dict[str, Path]:
    """The files of this Python that the proxy needs, by their path in the image."""
    survey = subprocess.run(
        [os.path.realpath(sys.executable), *python_command(None)[1:], "survey"],
        cwd=str(Path(__file__).parent),
        env={"PATH": os.environ.get("PATH", ""), "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")},
        capture_output=True,
        timeout=_SURVEY_SECONDS,
        check=False,
    )
    if survey.returncode:
        reason = survey.stderr.decode("utf-8", "replace").strip()[-500:]
        raise UsageError(f"the egress proxy cannot be made of this worker's Python: {reason}")
    found = json.loads(survey.stdout)
    own = str(Path(__file__).parent)
    needed = {Path(name) for name in found["modules"] if not name.startswith(own) and Path(name).is_file()}
    needed |= set(Path(encodings.__file__).parent.glob("*.py"))  # looked up by name, when first used
    mapped = [Path(name) for name in found["mapped"] if Path(name).is_file()]
    needed |= set(mapped) | _names_of(mapped)
    needed |= {Path(loader) for loader in _LOADERS if Path(loader).exists()}
    return {str(path).lstrip("/"): path for path in sorted(needed)}


def _names_of(libraries: Iterable[Path]) -> set[Path]:
    """The names under which the loader looks for libraries: links to them beside them."""
    names = set()
    for folder in {library.parent for library in libraries if ".so" in library.name}:
        names |= {
            entry
            for entry in folder.glob("*.so*")
            if entry.is_symlink() and entry.resolve() in set(libraries)
        }
    return names


def _archive(contents: dict[str, bytes], paths: dict[str, Path]) -> bytes:
    """A root file system; every file is a copy under each of its names, so that no link can break."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        if paths:
            contents = contents | {"etc/nsswitch.conf": b"hosts: files dns\n"}
            for name in ("egress", "tmp"):
                _add_folder(tar, name)
        for name, data in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            tar.addfile(entry, io.BytesIO(data))
        for name, path in paths.items():
            data = path.read_bytes()
            entry = tarfile.TarInfo(name)
            # With its time, so that compiled modules are known to be current.
            entry.size, entry.mode, entry.mtime = len(data), 0o755, int(path.stat().st_mtime)
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _add_folder(tar: tarfile.TarFile, name: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(entry)
