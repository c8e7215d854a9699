"""Starting, following, attaching to and ending launches: what the commands and the SDK share."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta

from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from ..activities.data_converter import data_converter
from ..contracts.base import Contract
from ..contracts.errors import ConfigurationError, UsageError
from ..contracts.launch import OVER_STATES, LaunchResult, LaunchSpec, LaunchStatus
from ..contracts.search_attributes import OUTCOME
from ..contracts.workflows import (
    BEGAN_MEMO,
    CLUSTER_QUEUE,
    LAUNCH_WORKFLOW,
    PAUSE_SIGNAL,
    QUEUE_VARIABLE,
    RESUME_SIGNAL,
    LaunchInput,
    RequestOverrides,
    launch_workflow_id,
)
from ..workflows.attributes import launch_details, launch_memo, launch_summary, spec_attributes
from .cluster_setup import check_set_up, not_set_up
from .connection import Connection, connect
from .display import Display
from .embedded_server import agentcompass_home
from .following import Follower
from .housekeeping import own_secrets, sweep
from .launch_handle import LaunchHandle, call, describe, is_running, send_signal, send_to_request
from .launch_options import StartOptions
from .launch_status import ask_status, read_status
from .running_tasks import running_tasks
from .shared_queue import with_worker
from .silent_launch import why_paused
from .troubles import find_troubles
from .worker_process import LaunchWorker

ROOM = 512
"""Attempts at a time that a launch's own worker has room for at least."""
OWN_STEPS = 16
"""Activities of a launch that are not an attempt's."""
LISTED_STATES = 50
"""Running launches that ``list`` asks whether they are paused."""
SILENT_STATES = 10
"""Of those that nobody serves, how many have their histories read for that."""
LIST_TIMEOUT = timedelta(seconds=2)
"""How long ``list`` waits for launches whose worker is gone, all together."""


class LaunchSummary(Contract):
    """A line of ``agentcompass list``."""

    launch_id: str
    name: str = ""
    status: str
    started_at: str = ""
    schedule: str = ""
    """The schedule that started it, if one did."""


async def open_connection() -> Connection:
    """Connect with our converter: the embedded server, or the configured cluster."""
    return await connect(data_converter=data_converter())


def new_launch_id(spec: LaunchSpec) -> str:
    """Readable and unique: its name or what is evaluated, when, and a few random letters."""
    request = spec.requests[0]
    parts = (spec.name,) if spec.name else (request.benchmark.id, request.harness.id, request.model.id)
    words = [re.sub(r"[^A-Za-z0-9._-]+", "_", part)[:40] for part in parts]
    return f"{'-'.join(words)}-{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


async def start(
    spec: LaunchSpec, options: StartOptions, *, overrides: RequestOverrides | None = None
) -> LaunchHandle:
    """Start a launch; in embedded mode with a worker of its own."""
    connection = await open_connection()
    await check_set_up(connection)
    launch_id = new_launch_id(spec)
    handle = _handle(connection, launch_id, spec.task_concurrency)
    # The worker takes a second to start; it waits for the launch that it is told to serve.
    handle.ensure_worker()
    if handle.worker is not None and options.removes_keys:
        own_secrets(agentcompass_home(), launch_id, spec)
    await _start_workflow(handle, spec, overrides or RequestOverrides())
    if handle.worker is not None:
        await sweep(connection.client, agentcompass_home())
    if options.detach and handle.worker is not None:
        _supervise_in_background(launch_id)
    return handle


def worker_concurrency(task_concurrency: int) -> int:
    """Activities at a time for a launch: one an attempt, and some for the launch's own steps.

    Room costs next to nothing, and the concurrency of a running launch can be raised within it: another worker would
    not have the environment variables, and the keys, of the shell that started this one.
    """
    return max(task_concurrency, ROOM) + OWN_STEPS


def _handle(connection: Connection, launch_id: str, task_concurrency: int) -> LaunchHandle:
    concurrency = worker_concurrency(task_concurrency)
    if connection.mode == "cluster":
        queue = os.environ.get(QUEUE_VARIABLE) or CLUSTER_QUEUE
        return LaunchHandle(launch_id, connection, None, queue, concurrency)
    worker = LaunchWorker(agentcompass_home(), launch_id)
    return LaunchHandle(launch_id, connection, worker, launch_workflow_id(launch_id), concurrency)


async def _start_workflow(handle: LaunchHandle, spec: LaunchSpec, overrides: RequestOverrides) -> None:
    try:
        await handle.connection.client.start_workflow(
            LAUNCH_WORKFLOW,
            LaunchInput(
                launch_id=handle.launch_id,
                spec=spec,
                ui_address=handle.connection.ui_address,
                overrides=overrides,
            ),
            id=launch_workflow_id(handle.launch_id),
            task_queue=handle.task_queue,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            search_attributes=spec_attributes(handle.launch_id, spec),
            memo=launch_memo(spec),
            static_summary=launch_summary(spec),
            static_details=launch_details(spec),
        )
    except WorkflowAlreadyStartedError:
        raise UsageError(
            f"launch {handle.launch_id!r} exists already; go on with: agentcompass attach {handle.launch_id}"
        ) from None
    except RPCError as error:
        # A server that does not list its search attributes tells only now which of them it lacks.
        if error.status is RPCStatusCode.INVALID_ARGUMENT and "search attribute" in error.message.lower():
            raise not_set_up(handle.connection, f"refuses the launch: {error.message}") from None
        raise


def _supervise_in_background(launch_id: str) -> None:
    """Leave a process behind that restarts the worker when it dies, as a terminal would."""
    folder = agentcompass_home() / "workers"
    log = folder / f"{launch_id}.supervisor.log"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        subprocess.Popen(
            [sys.executable, "-m", "agentcompass.cli.main", "attach", launch_id, "--progress", "none"],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
            cwd="/",
        )
    finally:
        os.close(descriptor)


async def attach(launch_id: str) -> LaunchHandle:
    """Reach a launch that was started before. Raises ``UsageError`` when there is none."""
    connection = await open_connection()
    handle = _handle(connection, launch_id, 32)
    description = await describe(handle)
    if description.task_queue != launch_workflow_id(launch_id):
        # A shared queue: a cluster's, or that of schedules. Its workers are not ours to replace.
        return LaunchHandle(launch_id, connection, None, description.task_queue, handle.concurrency)
    if handle.worker is not None and (known := handle.worker.state()) is not None:
        handle = LaunchHandle(launch_id, connection, handle.worker, known.task_queue, known.concurrency)
    else:
        handle = LaunchHandle(
            launch_id, connection, handle.worker, description.task_queue, handle.concurrency
        )
    return handle


async def status(launch_id: str) -> LaunchStatus:
    """The state of a launch, running or over."""
    handle = await attach(launch_id)
    found = await with_running_tasks(await read_status(handle))
    troubles = await find_troubles(handle, found)
    return found.model_copy(update={"troubles": troubles})


async def with_running_tasks(found: LaunchStatus) -> LaunchStatus:
    """``found`` with what the tasks of each running request are doing, where its directory can be read."""
    requests = [
        item.model_copy(update={"running_tasks": await asyncio.to_thread(running_tasks, item.run_dir)})
        if item.run_dir and item.state not in OVER_STATES
        else item
        for item in found.requests
    ]
    return found.model_copy(update={"requests": requests})


async def follow(handle: LaunchHandle, display: Display) -> LaunchResult:
    """Show progress until the launch is over; see ``cli/following.py``."""
    return await Follower(handle, display).run()


async def pause(launch_id: str, reason: str = "", request: str = "") -> bool:
    """Let a launch, or one of its requests, start no further attempts; False when the launch is over already.

    A launch that is paused again without a ``reason`` keeps the one it has.
    """
    handle = await attach(launch_id)
    if request:
        return await send_to_request(handle, request, PAUSE_SIGNAL, reason)
    return await send_signal(handle, PAUSE_SIGNAL, reason)


async def resume(launch_id: str, request: str = "") -> bool:
    """Let a paused launch go on, or one request and all that wait for the same endpoint; False when the launch is over.

    In embedded mode its worker is replaced by one with the environment of this command, so that a
    key that was mended in the shell is seen.
    """
    handle = await attach(launch_id)
    if await is_running(handle):
        handle = await call(lambda: with_worker(handle))
    if handle.worker is not None and await is_running(handle):
        await asyncio.to_thread(
            handle.worker.replace, handle.task_queue, handle.concurrency, handle.connection.address
        )
    if request:
        return await send_to_request(handle, request, RESUME_SIGNAL)
    return await send_signal(handle, RESUME_SIGNAL)


async def list_launches(limit: int = 200) -> list[LaunchSummary]:
    """The launches that Temporal knows, latest first."""
    client: Client = (await open_connection()).client
    # A launch of many requests has several runs.
    query = f'WorkflowType = "{LAUNCH_WORKFLOW}" AND ExecutionStatus != "ContinuedAsNew"'
    items = [item async for item in client.list_workflows(query, limit=limit)]
    running = [item.id for item in items if item.status is WorkflowExecutionStatus.RUNNING]
    states = await _states(client, running)
    found: list[LaunchSummary] = []
    for item in items:
        outcome = item.typed_search_attributes
        word = next((str(pair.value) for pair in outcome if pair.key.name == OUTCOME), "")
        ended = word or (item.status.name.lower() if item.status else "unknown")
        began = await _memo(item, BEGAN_MEMO)
        started = (datetime.fromisoformat(began) if began else item.start_time).astimezone()
        found.append(
            LaunchSummary(
                launch_id=item.id.removeprefix("launch/"),
                status=states.get(item.id, ended),
                started_at=started.isoformat(timespec="seconds"),
                name=await _memo(item, "name"),
                schedule=await _memo(item, "schedule"),
            )
        )
    return sorted(found, key=lambda item: item.started_at, reverse=True)


async def _answer(client: Client, workflow_id: str) -> LaunchStatus | None:
    """``None`` also for a launch of others, whose payload key this process does not have."""
    try:
        return await ask_status(client, workflow_id, LIST_TIMEOUT)
    except ConfigurationError:
        return None


async def _memo(launch: WorkflowExecution, name: str) -> str:
    """Empty when there is none, and for launches of others, whose payload key this process does not have."""
    try:
        return str(await launch.memo_value(name, ""))
    except ConfigurationError:
        return ""


async def _states(client: Client, workflow_ids: Sequence[str]) -> dict[str, str]:
    """``paused`` or ``running`` for running launches, of which only they themselves know."""
    asked = workflow_ids[:LISTED_STATES]
    answers = await asyncio.gather(*(_answer(client, item) for item in asked))
    paused = {
        name for name, answer in zip(asked, answers, strict=True) if answer and answer.state == "paused"
    }
    silent = [name for name, answer in zip(asked, answers, strict=True) if answer is None][:SILENT_STATES]
    reasons = await asyncio.gather(*(why_paused(client, name.removeprefix("launch/")) for name in silent))
    paused |= {name for name, reason in zip(silent, reasons, strict=True) if reason}
    return {name: "paused" if name in paused else "running" for name in workflow_ids}
