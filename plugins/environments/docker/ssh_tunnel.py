"""The way to an engine behind ``ssh://``: a socket of this machine that the user's own ``ssh`` leads there.

The program, its configuration, keys, agent and known hosts are the user's. Everything else speaks to a local
socket, so that time limits and hanging up work as with any engine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from ....contracts.errors import ServiceUnreachableError, UsageError

_PREFIX = "agentcompass-ssh-"
_OPTIONS = {
    "BatchMode": "yes",  # nobody is there to be asked
    "ExitOnForwardFailure": "yes",
    "StreamLocalBindUnlink": "yes",
    "ServerAliveInterval": "15",
    "ServerAliveCountMax": "4",
    "ConnectTimeout": "30",
    "ControlPath": "none",
}
_REMOTE = "echo ready; exec cat >/dev/null"
"""Ends when nobody holds its standard input any more: a killed worker leaves no ``ssh`` behind."""
_USAGE = "an engine behind SSH is ssh://[USER@]HOST[:PORT][/SOCKET], without a password"
_USUAL_SOCKET = "/var/run/docker.sock"


class SshTunnel:
    """Every method may be called from any thread, and blocks."""

    def __init__(self, host: str) -> None:
        """``host``: ``ssh://[USER@]NAME[:PORT][/path/of/the/socket]``. Raises ``UsageError``."""
        try:
            parts = urlsplit(host)
            port = parts.port
        except ValueError:  # its text repeats the address, which may hold a password
            raise UsageError(_USAGE) from None
        if not parts.hostname or parts.hostname.startswith("-") or parts.password is not None:
            raise UsageError(_USAGE)
        self._host = host
        self._target = f"{parts.username}@{parts.hostname}" if parts.username else parts.hostname
        self._port = port
        self._remote = parts.path if parts.path.strip("/") else _USUAL_SOCKET
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def address(self) -> str:
        """The address of the local socket, behind which there is a living connection.

        Raises ``ServiceUnreachableError`` with what ``ssh`` says.
        """
        with self._lock:
            if self._folder is None:
                _remove_stale()
                self._folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
            local = self._folder / "engine.sock"
            if self._process is None or self._process.poll() is not None:
                self._connect(local)
        return f"unix://{local}"

    def _connect(self, local: Path) -> None:
        program = shutil.which("ssh")
        if program is None:
            raise ServiceUnreachableError(f"{self._host} needs the program ssh, which is not installed")
        options = [word for name, value in _OPTIONS.items() for word in ("-o", f"{name}={value}")]
        port = ["-p", str(self._port)] if self._port else []
        process = subprocess.Popen(
            [program, "-T", *options, *port, "-L", f"{local}:{self._remote}", "--", self._target, _REMOTE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C is for the command line, not for its connections
        )
        assert process.stdout is not None and process.stderr is not None
        if process.stdout.readline() != b"ready\n":
            process.kill()
            said = process.stderr.read().decode("utf-8", "replace").strip()
            process.wait()
            reason = said.splitlines()[-1][:300] if said else "ssh ended without a word"
            raise ServiceUnreachableError(f"no Docker engine is reached at {self._host}: {reason}")
        threading.Thread(target=_drain, args=(process.stderr,), name="ssh-messages", daemon=True).start()
        self._process = process


def _drain(stream: IO[bytes]) -> None:
    """Read to the end, so that nobody waits for a reader."""
    with contextlib.suppress(OSError, ValueError):
        while stream.read(4096):
            pass


def _remove_stale() -> None:
    """Folders of workers that are gone; one that ends has no time to tidy up."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        with contextlib.suppress(OSError):
            if pid.isdigit() and folder.stat().st_uid == os.geteuid() and not _is_there(int(pid)):
                shutil.rmtree(folder)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
