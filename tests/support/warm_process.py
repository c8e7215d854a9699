"""A process that has imported the program, and whose forks are commands: one starts in a twentieth of the time.

Started by :mod:`warm_start` as ``warm_process.py SOCKET``. A request is a JSON object with ``arguments``, ``folder``
and ``env``, sent along with the three standard streams. The fork answers with its process id when it is what an
ordinary start would have made: a session of its own, in that folder, with that environment, in ``/proc``, too.
When it has ended, its exit code follows. This process ends when its standard input is closed, that is with the tests.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from warm_start import LARGEST_REQUEST, Subprocess

PRELOADED = (
    "agentcompass.cli.main",
    "agentcompass.worker",
    "agentcompass.cli.commands.follow",
    "agentcompass.cli.config",
    "agentcompass.cli.launcher",
    "agentcompass.plugins.builtin",
    "agentcompass.plugins.benchmarks.jsonl",
    "agentcompass.plugins.benchmarks.scorers",
    "agentcompass.plugins.environments.host_process.provider",
)
_OWN_PATH = tuple(sys.path[1:])


def main(path: str) -> None:
    """Fork for everybody who asks, until standard input is closed."""
    sys.modules["httpx._main"] = None  # type: ignore[assignment] # as every command begins
    for name in PRELOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what is never collected is not copied for every fork
    Forks(path).serve()
    shutil.rmtree(Path(path).parent)


class Forks:
    """Makes forks and tells how they ended."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(path)
        self._listener.listen(64)
        self._ended, self._wakeup = socket.socketpair()
        self._wakeup.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._askers: dict[int, socket.socket] = {}

    def serve(self) -> None:
        """Return when standard input is closed."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup.fileno())
        for stream in (self._listener, self._ended, sys.stdin):
            self._selector.register(stream, selectors.EVENT_READ)
        print("ready", flush=True)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._fork(self._listener.accept()[0])
                elif key.fileobj is self._ended:
                    self._ended.recv(4096)
                    self._tell_ends()
                else:
                    return

    def _fork(self, asker: socket.socket) -> None:
        message, streams, _, _ = socket.recv_fds(asker, LARGEST_REQUEST, 3)
        if not streams:  # who asked is gone
            asker.close()
            return
        pid = os.fork()
        if pid == 0:
            self._leave_behind()
            become(json.loads(message), streams, asker, self._path)
        for stream in streams:
            os.close(stream)
        self._askers[pid] = asker

    def _leave_behind(self) -> None:
        """In the fork: nothing of this process is open there, or the end of one would go unnoticed."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for held in (self._selector, self._listener, self._ended, self._wakeup, *self._askers.values()):
            held.close()

    def _tell_ends(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            with self._askers.pop(pid) as asker, contextlib.suppress(OSError):  # nobody may wait for it
                asker.send(json.dumps({"code": os.waitstatus_to_exitcode(status)}).encode())


def become(request: Mapping[str, Any], streams: Sequence[int], asker: socket.socket, path: str) -> NoReturn:
    """In the fork: carry out the command."""
    try:
        os.setsid()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["env"])
        own = [entry for entry in request["env"].get("PYTHONPATH", "").split(os.pathsep) if entry]
        sys.path[:] = [request["folder"], *own, *_OWN_PATH]
        importlib.invalidate_caches()
        sys.argv[:] = [sys.argv[0], *request["arguments"]]
        show_as([sys.executable, "-m", "agentcompass.cli.main", *request["arguments"]], request["env"])
        start_workers_warm(path)
        with asker:
            asker.send(json.dumps({"pid": os.getpid()}).encode())
        importlib.import_module("agentcompass.cli.main").main()
    except BaseException:  # nothing may go back to the loop that forked
        traceback.print_exc()
    os._exit(70)


def start_workers_warm(path: str) -> None:
    """Let what a command starts be forks as well: the worker of a launch, and who watches over a detached one."""
    for name in ("worker_process", "launcher"):
        module = importlib.import_module(f"agentcompass.cli.{name}")
        module.subprocess = Subprocess(path)  # type: ignore[attr-defined]  # in place of the module there


def show_as(arguments: Sequence[str], env: Mapping[str, str]) -> None:
    """What other processes see in ``/proc``: they are found by it. The room is that of this process's own."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    first_argument, last_argument, first_variable, last_variable = map(int, fields[45:49])
    for start, end, texts in (
        (first_argument, last_argument, arguments),
        (first_variable, last_variable, [f"{name}={value}" for name, value in env.items()]),
    ):
        shown = b"".join(os.fsencode(text) + b"\0" for text in texts)[: end - start - 1]
        ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)


if __name__ == "__main__":
    main(sys.argv[1])
