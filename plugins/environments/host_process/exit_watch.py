"""Waiting for a child without polling and without reaping it too early."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def exit_of(process: subprocess.Popen[bytes]) -> Iterator[asyncio.Future[None]]:
    """A future that is done when the child has ended; ``process.wait()`` returns at once then."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def done() -> None:
        if not ended.done():
            ended.set_result(None)

    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # not Linux, or forbidden by a container's seccomp profile
        _wait_in_thread(process, loop, done)
        yield ended
        return
    loop.add_reader(descriptor, done)
    try:
        yield ended
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _wait_in_thread(
    process: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, done: Callable[[], None]
) -> None:
    def wait() -> None:
        process.wait()
        if not loop.is_closed():
            loop.call_soon_threadsafe(done)

    # A thread of its own: in a shared pool, long commands would keep their own ending from running.
    threading.Thread(target=wait, name=f"wait-{process.pid}", daemon=True).start()
