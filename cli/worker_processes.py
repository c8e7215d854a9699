"""Several worker processes under one: they get its signals, and it ends when all have ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def run_processes(arguments: Sequence[Sequence[str]]) -> int:
    """Run ``agentcompass worker`` once for each list of arguments and wait; returns the first exit code that is not 0.

    A worker that dies does not end the others: their work goes on, and its own is taken over.
    """
    command = [sys.executable, "-m", "agentcompass.cli.main", "worker"]
    processes: list[subprocess.Popen[bytes]] = []
    stopping = False

    def pass_on(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        del frame
        stopping = True
        for process in processes:
            process.send_signal(number)

    previous = {number: signal.signal(number, pass_on) for number in SIGNALS}
    try:
        # Sessions of their own: Ctrl-C in the terminal reaches them once, through pass_on.
        while len(processes) < len(arguments) and not stopping:
            processes.append(subprocess.Popen([*command, *arguments[len(processes)]], start_new_session=True))
        if stopping:  # the signal may have come before the last process was known
            processes[-1].terminate()
        codes = [process.wait() for process in processes]
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for process in processes:
            if process.poll() is None:
                process.terminate()
    for process, code in zip(processes, codes, strict=True):
        if code:
            print(f"Warning: worker process {process.pid} ended with {code}", file=sys.stderr)
    return next((code if code > 0 else 1 for code in codes if code), 0)
