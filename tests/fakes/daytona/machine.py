"""The machine of one sandbox: a private process table and private folders on this one, and its daemon."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

DAEMON = Path(__file__).with_name("daemon.py")
HOME = "/home/daytona"
_SETUP = """
set -e
mkdir -p "$1/home/daytona" "$1/var-tmp"
chmod 1777 "$1/var-tmp"
mount --bind "$1/home" /home
mount --bind "$1/var-tmp" /var/tmp
cd /home/daytona
exec env PATH="$INSIDE" "$2" -I -S "$3" "$1/daemon.sock"
"""


class Machine:
    """Started at once. Removing its first process, the daemon, ends everything in it, as with a container."""

    def __init__(self, folder: Path, snapshot: str | None) -> None:
        folder.mkdir(parents=True)
        self.socket = folder / "daemon.sock"
        spaces = ["unshare", "--pid", "--mount", "--fork", "--kill-child=KILL", "--mount-proc"]
        if os.geteuid() != 0:
            spaces[1:1] = ["--user", "--map-root-user"]
        command = [*spaces, "sh", "-c", _SETUP, "sh", str(folder), sys.executable, str(DAEMON)]
        path = str(_busybox(folder / "bin")) if snapshot == "busybox" else os.environ["PATH"]
        variables = {"PATH": os.environ["PATH"], "INSIDE": path, "HOME": HOME, "LANG": "C.UTF-8"}
        self._process = subprocess.Popen(
            command,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

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


def _busybox(folder: Path) -> Path:
    """A folder with the tools of busybox and nothing else."""
    program = shutil.which("busybox")
    if program is None:
        raise RuntimeError("the snapshot busybox needs busybox")
    folder.mkdir()
    listed = subprocess.run([program, "--list"], capture_output=True, check=True, text=True).stdout.split()
    for name in listed:
        (folder / name).symlink_to(program)
    return folder
