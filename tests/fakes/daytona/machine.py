"""The machine of one sandbox, and its daemon, which is its first process."""

from __future__ import annotations

import sys
from pathlib import Path

import namespaces

DAEMON = Path(__file__).with_name("daemon.py")
HOME = "/home/daytona"


class Machine:
    """Started at once. Removing its first process ends everything in it, as with a container."""

    def __init__(self, folder: Path, snapshot: str | None) -> None:
        folder.mkdir(parents=True)
        self.socket = folder / "daemon.sock"
        command = [sys.executable, "-I", "-S", str(DAEMON), str(self.socket)]
        tools = str(namespaces.busybox(folder / "bin")) if snapshot == "busybox" else None
        self._process = namespaces.start(folder, HOME, command, tools)

    @property
    def ready(self) -> bool:
        """Whether the daemon listens. Raises ``RuntimeError`` when it never will."""
        if self._process.poll() is not None:
            raise RuntimeError(f"the sandbox's machine ended with {self._process.returncode}")
        return self.socket.exists()

    def end(self) -> None:
        """End it with all that runs in it."""
        self._process.kill()
        self._process.wait()
