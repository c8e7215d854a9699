"""Gates: a hook waits where the test has closed a gate, and every call of a hook is written down.

The folder in ``GATES`` holds ``<task>.<hook>.closed`` and ``<task>.<hook>.broken`` (made and removed by the
test), ``<task>.<hook>.waiting`` (made by the hook that stands there) and ``ledger.jsonl``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

VARIABLE = "AGENTCOMPASS_TEST_GATES"
POLL_SECONDS = 0.02


def folder() -> Path:
    """Where the gates are."""
    return Path(os.environ[VARIABLE])


@contextlib.asynccontextmanager
async def passing(task: str, hook: str) -> AsyncIterator[None]:
    """Write down that the hook began; wait at its gate; in the end write down that it ended.

    Raises ``RuntimeError`` while the test wants the hook to be broken.
    """
    write(task, hook, "began")
    while is_closed(task, hook):  # noqa: ASYNC110  # the gate is opened by another process
        await asyncio.sleep(POLL_SECONDS)
    if (folder() / f"{task}.{hook}.broken").exists():
        raise RuntimeError("the test wants it")
    yield
    write(task, hook, "ended")


@contextlib.contextmanager
def passing_blocking(task: str, hook: str) -> Iterator[None]:
    """The same for a hook that is no coroutine; its worker stands still meanwhile."""
    write(task, hook, "began")
    while is_closed(task, hook):
        time.sleep(POLL_SECONDS)
    yield
    write(task, hook, "ended")


def is_closed(task: str, hook: str) -> bool:
    """Whether the test wants the hook to wait; tells the test that it does."""
    if not (folder() / f"{task}.{hook}.closed").exists():
        return False
    (folder() / f"{task}.{hook}.waiting").write_text(str(os.getpid()))
    return True


def write(task: str, hook: str, what: str) -> None:
    """Add a line to the ledger in one write, which other processes cannot tear."""
    line = json.dumps({"task": task, "hook": hook, "what": what, "pid": os.getpid()}) + "\n"
    descriptor = os.open(folder() / "ledger.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)
