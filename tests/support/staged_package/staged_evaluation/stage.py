"""The folder by which a test directs the benchmark and learns what was called.

``<task>.<hook>`` (or ``<task>.a<attempt>.<hook>``) says how a hook ends: ``fatal``, ``error``,
``warning``, ``wrong``, ``wait`` (as long as the file says so). ``ledger`` has a line for each call.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

VARIABLE = "AGENTCOMPASS_TEST_STAGE"
POLL_SECONDS = 0.02


async def enter(task: str, attempt: int, hook: str) -> str:
    """Write the call down; returns what the test wants of it, once that is not to wait."""
    folder = Path(os.environ[VARIABLE])
    descriptor = os.open(folder / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, f"{hook} {task} {attempt}\n".encode())
    os.close(descriptor)
    while (wanted := _wanted(folder, task, attempt, hook)) == "wait":  # noqa: ASYNC110 - a file has no event
        await asyncio.sleep(POLL_SECONDS)
    return wanted


def _wanted(folder: Path, task: str, attempt: int, hook: str) -> str:
    for name in (f"{task}.a{attempt}.{hook}", f"{task}.{hook}"):
        if (folder / name).exists():
            return (folder / name).read_text()
    return ""
