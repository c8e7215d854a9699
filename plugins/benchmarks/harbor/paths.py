"""The folders that the format knows inside an environment, and where they are.

Where every sandbox has a root of its own they are where tasks expect them. On ``host_process`` they
lie below the work directory, and the paths are rewritten in what a task's texts say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAPPED_ENVIRONMENT: Final = "host_process"
"""The environment whose sandboxes share the root of their machine."""
MAPPED_FOLDER: Final = ".harbor"
_PATH = re.compile(r"(?<![\w./~$}%-])/(app|tests|solution|logs)(?![\w-]|\.\w)")


@dataclass(frozen=True)
class SandboxPaths:
    """Absolute paths inside one sandbox."""

    app: str
    tests: str
    solution: str
    logs: str
    mapped: bool

    @classmethod
    def of(cls, environment: str, workdir: str) -> SandboxPaths:
        """Those of an environment by its id; ``workdir`` is the sandbox's."""
        if environment != MAPPED_ENVIRONMENT:
            return cls(workdir, "/tests", "/solution", "/logs", mapped=False)
        top = f"{workdir}/{MAPPED_FOLDER}"
        return cls(workdir, f"{top}/tests", f"{top}/solution", f"{top}/logs", mapped=True)

    @property
    def root(self) -> str | None:
        """The user who may remove what an agent has left in these folders; ``None``: our own."""
        return None if self.mapped else "0"

    def rewritten(self, text: str) -> str:
        """``text`` with the format's absolute paths as they are here."""
        if not self.mapped:
            return text
        return _PATH.sub(lambda found: str(getattr(self, found[1])), text)


def mapped_source(path: str) -> str:
    """A declared artifact's path below the work directory, for environments without a root of their own."""
    if path == "/app" or path.startswith("/app/"):
        return "{workdir}/" + path.removeprefix("/app").lstrip("/")
    return "{workdir}/" + MAPPED_FOLDER + path if path.startswith("/logs/") else path
