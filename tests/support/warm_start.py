"""Starts commands as forks of a process that has imported the program (:mod:`warm_process`).

A cold start costs more than a second of CPU for imports alone, and the tests start more than a thousand processes. With
``TESTS_START_COLD=1`` all of them start cold; some tests always do.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

COLD_VARIABLE = "TESTS_START_COLD"
PADDING_VARIABLE = "AGENTCOMPASS_TEST_PADDING"
"""Makes room for the environments of the forks, see :func:`warm_process.show_as`."""
LARGEST_REQUEST = 200_000
"""Bytes; the kernel's limit for a packet is a little more."""
_PROGRAM = ["-m", "agentcompass.cli.main"]
_ARGUMENTS_ROOM = 8_000
"""Bytes of a fork's command line that others see."""
_VARIABLES_ROOM = 100_000
"""Bytes of its environment; the kernel takes 128 KiB for one text."""


class Process:
    """A fork, with what is used of ``subprocess.Popen``."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._connection = connection

    def poll(self) -> int | None:
        """The exit code, or ``None`` while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, as soon as it has ended; raises ``subprocess.TimeoutExpired``."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Nothing when it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            self._connection.settimeout(timeout)
            with contextlib.suppress(BlockingIOError, TimeoutError):
                self.returncode = json.loads(self._connection.recv(64))["code"]
                self._connection.close()
        return self.returncode


class Subprocess:
    """In place of the module ``subprocess`` for those who start commands of the program."""

    DEVNULL = subprocess.DEVNULL

    def __init__(self, path: str) -> None:
        self._path = path

    def Popen(
        self,
        arguments: Sequence[str],
        *,
        stdin: int | IO[bytes],
        stdout: int | IO[bytes],
        stderr: int | IO[bytes],
        start_new_session: bool,
        cwd: str | Path,
        env: Mapping[str, str] | None = None,
    ) -> Process:
        """Fork; all must be given as here, and every fork has a session of its own."""
        assert list(arguments[:3]) == [sys.executable, *_PROGRAM] and start_new_session
        assert stdin == subprocess.DEVNULL
        request = {
            "arguments": arguments[3:],
            "folder": str(cwd),
            "env": dict(os.environ if env is None else env),
        }
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(self._path)
        streams = [stream if isinstance(stream, int) else stream.fileno() for stream in (stdout, stderr)]
        with open(os.devnull, "rb") as nothing:
            message = json.dumps(request).encode()
            assert len(message) < LARGEST_REQUEST
            socket.send_fds(connection, [message], [nothing.fileno(), *streams])
        return Process(json.loads(connection.recv(64))["pid"], connection)


_warm: Subprocess | None = None


def subprocess_for(env: Mapping[str, str]) -> Any:
    """Who starts a command with this environment: the module ``subprocess``, or what has its ``Popen``."""
    global _warm
    if not sys.platform.startswith("linux") or COLD_VARIABLE in os.environ or _changes_python(env):
        return subprocess
    if _warm is None:
        _warm = Subprocess(_start())
    return _warm


def _changes_python(env: Mapping[str, str]) -> bool:
    """Whether the interpreter would start in another way or find another program."""
    if any(
        name.startswith("PYTHON") and name != "PYTHONPATH" and os.environ.get(name) != env[name]
        for name in env
    ):
        return True
    folders = [Path(entry) for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return any(
        (folder / name).exists() for folder in folders for name in ("agentcompass", "sitecustomize.py")
    )


def _start() -> str:
    """Start the process that is forked; it ends when this one does. Returns where it listens."""
    path = str(Path(tempfile.mkdtemp(prefix="warm-")) / "socket")
    program = str(Path(__file__).with_name("warm_process.py"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AGENTCOMPASS_")}
    process = subprocess.Popen(
        [sys.executable, program, path, " " * _ARGUMENTS_ROOM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd="/",
        env={**kept, PADDING_VARIABLE: " " * _VARIABLES_ROOM},
        start_new_session=True,
    )
    _owned.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n", "the process to fork has not started"
    return path


_owned: list[subprocess.Popen[bytes]] = []
"""Keeps its standard input open."""
