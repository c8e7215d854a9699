"""Scheduled launches with the local server: their queue is served by a worker that somebody keeps running."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from .embedded_server import agentcompass_home
from .launch_handle import LaunchHandle
from .launch_status import ask_status
from .troubles import is_polled
from .worker_process import LaunchWorker

_PATIENCE = timedelta(seconds=4)
"""How long a launch may take to answer before it is taken for one that nobody serves."""


async def with_worker(handle: LaunchHandle) -> LaunchHandle:
    """``handle`` with a worker of its own for a running launch that nobody serves; not started yet.

    A second one beside a worker that is only slow does no harm. With a cluster there is none: its workers are not ours
    to start.
    """
    if handle.worker is not None or handle.connection.mode == "cluster":
        return handle
    client = handle.connection.client
    if await is_polled(client, handle.task_queue) and await ask_status(client, handle.workflow.id, _PATIENCE):
        return handle
    return replace(handle, worker=LaunchWorker(agentcompass_home(), handle.launch_id))
