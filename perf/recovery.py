"""Measures how long attempts stand still after ``kill -9`` of their worker."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass

from command import Bench
from sandboxes import sleeping_run

_GRACE_SECONDS = 30.0
_SETTLE_SECONDS = 3.0
"""Between the last start of a command and the kill: each attempt has sent heartbeats by then."""


@dataclass(frozen=True)
class RecoveryRun:
    """One kill. Seconds count from it."""

    heartbeat_timeout: float
    attempts: int
    """That were running commands when their worker was killed."""
    worker_seconds: float
    """Until there was another worker process."""
    first_seconds: float
    """Until the first attempt had gone on: its command was started again."""
    last_seconds: float
    """Until all had."""


def measure_recovery(bench: Bench, attempts: int, heartbeat_timeout: float) -> RecoveryRun:
    """Kill the worker under ``attempts`` running commands; the command line that follows starts another."""
    with sleeping_run(bench, attempts, heartbeat_timeout=heartbeat_timeout, grace=_GRACE_SECONDS) as run:
        time.sleep(_SETTLE_SECONDS)
        worker = run.worker()
        killed = time.time()
        os.kill(worker, signal.SIGKILL)
        run.worker(after=worker)
        worker_seconds = time.time() - killed
        run.wait_for_starts(attempts, 2)
        again = [moments[1] - killed for moments in run.starts().values()]
    return RecoveryRun(heartbeat_timeout, attempts, worker_seconds, min(again), max(again))
