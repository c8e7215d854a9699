"""Looking at a launch again and again, without taking any part in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..contracts.launch import OVER_STATES, LaunchStatus
from ..contracts.records import ProgressSnapshot
from . import launcher
from .launch_handle import call
from .launch_status import read_snapshot, read_status
from .troubles import TroubleWatch

WATCH_SECONDS = 1.0

Look = Callable[[LaunchStatus, ProgressSnapshot | None], None]


async def watch(launch_id: str, look: Look, *, seconds: float = WATCH_SECONDS) -> LaunchStatus:
    """Call ``look`` with the state of the launch every few ``seconds`` until it is over; returns the last one.

    Unlike ``attach`` it starts no worker, and being cancelled does nothing to the launch. Raises
    ``UsageError`` when there is no such launch, ``ServiceUnreachableError`` when the server stays away.
    """
    handle = await launcher.attach(launch_id)
    troubles = TroubleWatch()

    async def ask() -> LaunchStatus:
        return await launcher.with_running_tasks(await troubles.look(handle, await read_status(handle)))

    while True:
        found = await call(ask)
        look(found, await asyncio.to_thread(read_snapshot, _followed(found)))
        if found.state in OVER_STATES:
            return found
        await asyncio.sleep(seconds)


def _followed(found: LaunchStatus) -> str:
    """The directory of the request that runs, else of the first that has one."""
    running = [item.run_dir for item in found.requests if item.run_dir and item.state not in OVER_STATES]
    return next(iter([*running, *(item.run_dir for item in found.requests if item.run_dir)]), "")
