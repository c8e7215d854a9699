"""Private process tables and folders on this machine, which the stand-ins of sandbox providers make machines of."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

_SETUP = """
set -e
folder=$1 home=$2
shift 2
mkdir -p "$folder$home" "$folder/var-tmp"
chmod 1777 "$folder/var-tmp"
mount --bind "$folder/home" /home
mount --bind "$folder/var-tmp" /var/tmp
cd "$home"
exec env PATH="$INSIDE" "$@"
"""


def start(folder: Path, home: str, command: list[str], tools: str | None = None) -> subprocess.Popen[bytes]:
    """Start ``command`` as the first process of a machine that keeps its files in ``folder``.

    Killing what is returned ends everything in the machine, as with a container. ``home`` is a folder below
    ``/home``, ``tools`` the ``PATH`` inside.
    """
    spaces = ["unshare", "--pid", "--mount", "--fork", "--kill-child=KILL", "--mount-proc"]
    if os.geteuid() != 0:
        spaces[1:1] = ["--user", "--map-root-user"]
    return subprocess.Popen(
        [*spaces, "sh", "-c", _SETUP, "sh", str(folder), home, *command],
        env=variables(home) | {"INSIDE": tools or os.environ["PATH"]},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def variables(home: str) -> dict[str, str]:
    """What programs inside find set."""
    return {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8"}


def first_child(pid: int) -> int | None:
    """The process that a process has started, as this machine numbers them."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return None
    return int(children[0]) if children else None


def busybox(folder: Path) -> Path:
    """A folder with the tools of busybox and nothing else."""
    program = shutil.which("busybox")
    if program is None:
        raise RuntimeError("a machine with the tools of busybox needs busybox")
    folder.mkdir()
    listed = subprocess.run([program, "--list"], capture_output=True, check=True, text=True).stdout.split()
    for name in listed:
        (folder / name).symlink_to(program)
    return folder
