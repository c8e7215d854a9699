"""Files of a container through the engine: needs no tool inside, and trusts none."""

from __future__ import annotations

import base64
import json
import posixpath
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ....contracts.errors import ServiceUnreachableError
from .engine import NOT_FOUND, Engine, EngineError

if TYPE_CHECKING:
    from requests import Response

_PIECE = 256 * 1024
_MOST_LINKS = 40
_GO_MODES = {
    1 << 31: stat.S_IFDIR,
    1 << 27: stat.S_IFLNK,
    1 << 25: stat.S_IFIFO,
    1 << 24: stat.S_IFSOCK,
    1 << 26: stat.S_IFBLK,
}
"""Bits of Go's ``os.FileMode``, in which the engine speaks."""


@dataclass(frozen=True)
class PathStatus:
    """What is at a path; the last component is not followed."""

    size: int
    kind: int
    """``stat.S_IFREG`` and so on."""
    link: str
    modified: str


class ContainerFiles:
    """The file system of one container. Everything here blocks."""

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine = engine
        self._path = f"/containers/{container}/archive"

    def status(self, path: str) -> PathStatus | None:
        """What is at ``path``, ``None`` when there is nothing. Some 3 ms."""
        try:
            response = self._engine.request("HEAD", self._path, params={"path": path})
        except EngineError as error:
            if error.status == NOT_FOUND:
                return None
            raise
        response.close()
        found = json.loads(base64.b64decode(response.headers["X-Docker-Container-Path-Stat"]))
        mode = found["mode"]
        kind = next((kind for bit, kind in _GO_MODES.items() if mode & bit), stat.S_IFREG)
        return PathStatus(found["size"], kind, found["linkTarget"], found["mtime"])

    def resolved(self, path: str) -> tuple[str, PathStatus]:
        """The path behind ``path``, links followed inside the container. Raises ``FileNotFoundError``."""
        here = path
        for _ in range(_MOST_LINKS):
            found = self.status(here)
            if found is None:
                raise FileNotFoundError(f"{path} does not exist in the environment")
            if found.kind != stat.S_IFLNK:
                return here, found
            # The engine tells where a link leads, seen from the container's root.
            here = posixpath.normpath(posixpath.join(posixpath.dirname(here), found.link))
        raise OSError(f"{path} is a chain of links without end")

    def read_archive(self, path: str) -> Response:
        """The file or tree at ``path`` as an open tar stream, which the caller closes."""
        try:
            return self._engine.request("GET", self._path, params={"path": path}, stream=True)
        except EngineError as error:
            if error.status == NOT_FOUND:
                raise FileNotFoundError(f"{path} does not exist in the environment") from None
            raise

    def unpack(self, folder: str, archive: Iterable[bytes], *, replace_folders: bool) -> None:
        """Unpack an archive below a folder. ``replace_folders`` lets a file take a folder's place, and back.

        An archive whose making fails is not unpacked to its end; its exception is raised.
        """
        params = {"path": folder, "noOverwriteDirNonDir": "false" if replace_folders else "true"}
        failures: list[OSError] = []

        def watched() -> Iterator[bytes]:
            try:
                yield from archive
            except OSError as error:
                failures.append(error)
                raise

        try:
            self._engine.request("PUT", self._path, params=params, data=watched()).close()
        except ServiceUnreachableError:
            if failures:  # not the connection, but what was to be sent
                raise failures[0] from None
            raise

    def existing_part(self, folder: str) -> str:
        """The part of a path that exists, from the root on."""
        here = folder
        while here not in ("/", "") and self.status(here) is None:
            here = posixpath.dirname(here)
        return here or "/"


def pieces_of(response: Response) -> Iterator[bytes]:
    """The body of an open answer, piece by piece; closed at the end."""
    try:
        yield from response.iter_content(_PIECE)
    finally:
        response.close()
