"""Changing a launch while it runs, and repeating what failed in it: what the operators' commands do."""

from __future__ import annotations

import asyncio
import difflib

from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.service import RPCError, RPCStatusCode

from ..contracts.errors import UsageError
from ..contracts.launch import OVER_STATES, LaunchResult, LaunchSpec, LaunchStatus, RequestStatus
from ..contracts.request import OutputSpec, ReuseSpec, RunRequest
from ..contracts.workflows import (
    CANCEL_REQUEST_SIGNAL,
    CANCEL_SIGNAL,
    CANCEL_TASK_SIGNAL,
    LIMITS_SIGNAL,
    RETRY_FAILED_SIGNAL,
    LaunchInput,
    LimitsChange,
)
from . import launcher
from .config.problems import nearest
from .home import home_folder
from .housekeeping import has_lost_secrets
from .launch_handle import LaunchHandle, call, describe, is_running, send_signal
from .launch_status import read_status
from .left_behind import LeftBehind
from .shared_queue import with_worker


async def clean_up_after(launch_id: str) -> bool:
    """Have what a launch left behind cleaned up that was ended from outside; False when nothing waits for that."""
    handle = await launcher.attach(launch_id)
    if await is_running(handle):
        return False
    left = LeftBehind(handle.connection)
    return launch_id in await call(lambda: left.serve(only=launch_id))


async def cancel(launch_id: str, *, request: str = "", task: str = "") -> str:
    """Ask a launch, one of its requests, or one task to end; returns what of these is over already.

    Raises ``UsageError`` for a request or a task that there is not.
    """
    handle = await launcher.attach(launch_id)
    whole = f"Launch {launch_id}"
    if not await is_running(handle):
        return whole
    # Cancelling is work, too: environments have to be closed by somebody.
    handle = await call(lambda: with_worker(handle))
    handle.ensure_worker()
    if task:
        return await _cancel_task(handle, request, task)
    if request:
        found = _request(await read_status(handle), request)
        if found.state in OVER_STATES:
            return f"Request {found.key} of launch {launch_id}"
        reason = "cancelled by `agentcompass cancel --request`"
        return "" if await send_signal(handle, CANCEL_REQUEST_SIGNAL, found.key, reason) else whole
    return "" if await send_signal(handle, CANCEL_SIGNAL, "cancelled by `agentcompass cancel`") else whole


async def _cancel_task(handle: LaunchHandle, request: str, task: str) -> str:
    status = await read_status(handle)
    if not request and len(status.requests) > 1:
        names = ", ".join(item.key for item in status.requests)
        raise UsageError(f"which request's task? Say --request with one of: {names}")
    found = _request(status, request) if request else status.requests[0]
    if found.run_dir and not await asyncio.to_thread(_is_open, found.run_dir, task):
        return f"Task {task} of launch {handle.launch_id}"
    if await _tell_request(handle, found, CANCEL_TASK_SIGNAL, task):
        return ""
    if found.state == "pending":
        raise UsageError(
            f"request {found.key!r} of launch {handle.launch_id} has not begun, so it has no task to cancel yet; "
            f"the whole request: agentcompass cancel {handle.launch_id} --request {found.key}"
        )
    return f"Request {found.key} of launch {handle.launch_id}"


def _is_open(run_dir: str, task: str) -> bool:
    """Whether a task has no record yet. Raises ``UsageError`` when the run has no such task."""
    from pathlib import Path

    from ..activities.store import open_store

    if not Path(run_dir).is_dir():
        return True  # on another machine, whose workers know
    store = open_store(run_dir)
    known = [entry.task_id for entry in store.task_entries()]
    if task not in known:
        near = difflib.get_close_matches(task, known, n=2)
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise UsageError(f"there is no task {task!r} in this request{hint}")
    return not store.has_record(task)


async def set_limits(launch_id: str, change: LimitsChange) -> bool:
    """New limits for a running launch; False when it is over.

    Raises ``UsageError`` for more attempts at a time than its own worker has room for, and for a
    provider that no request uses.
    """
    handle = await launcher.attach(launch_id)
    if not await is_running(handle):
        return False
    used = sorted({item.environment for item in (await read_status(handle)).requests})
    for provider in change.provider_limits:
        if used and provider not in used:
            raise UsageError(
                f"provider-limit: no request of launch {launch_id} has environment {provider!r}{nearest(provider, used)}"
            )
    room = handle.concurrency - launcher.OWN_STEPS
    if handle.worker is not None and (change.task_concurrency or 0) > room:
        raise UsageError(
            f"task-concurrency: this launch's worker has room for {room} attempts at a time; "
            "start a launch with a higher --task-concurrency, or use a cluster with several workers"
        )
    return await send_signal(handle, LIMITS_SIGNAL, change)


async def retry_failed(launch_id: str) -> LaunchSpec | int:
    """Queue the failed tasks of a running launch again: of how many requests.

    For a launch that is over: the launch that repeats the requests that were not completed, taking
    over all that is valid; without requests when all were.
    """
    handle = await launcher.attach(launch_id)
    if not await is_running(handle):
        return await _repetition(handle)
    status = await read_status(handle)
    failed = [item for item in status.requests if item.failed_tasks and item.state not in OVER_STATES]
    if failed:
        handle.ensure_worker()
    return sum([await _tell_request(handle, item, RETRY_FAILED_SIGNAL) for item in failed])


async def _repetition(handle: LaunchHandle) -> LaunchSpec:
    description = await describe(handle)
    if description.status is not WorkflowExecutionStatus.COMPLETED:
        raise UsageError(
            f"launch {handle.launch_id} was ended from outside and has no result; "
            "repeat each of its requests with: agentcompass run … --reuse RUN_ID"
        )
    try:
        result = await call(handle.workflow.result)
    except WorkflowFailureError as error:
        raise UsageError(f"launch {handle.launch_id} has no result: {error.cause}") from None
    spec = repetition(await _spec_of(handle), result)
    if spec.requests and handle.worker is not None and has_lost_secrets(home_folder(), spec):
        raise UsageError(
            f"launch {handle.launch_id} was given a key as it is, which was removed when it ended; "
            "repeat it with the key: agentcompass run … --reuse, or give keys as '${VARIABLE}'"
        )
    return spec


def repetition(spec: LaunchSpec, result: LaunchResult) -> LaunchSpec:
    """The launch that executes again what is not valid in ``result``; it may have no request left."""
    from ..contracts.workflows import request_key

    results = {item.key: item for item in result.requests}
    requests: list[RunRequest] = []
    for index, request in enumerate(spec.requests):
        key = request_key(index, request)
        found = results.get(key)
        if found is not None and found.valid:
            continue
        requests.append(_repeated(request, found.run_id if found else ""))
    # Not validated: a launch needs a request, and this one may have none.
    return spec.model_copy(update={"requests": requests})


def _repeated(request: RunRequest, run_id: str) -> RunRequest:
    if not run_id:  # it never had a run: from the beginning
        return request
    runtime = ReuseSpec(reuse=True, reuse_run_id=run_id, checkpoint_resume=request.runtime.checkpoint_resume)
    output = OutputSpec(run_name=request.output.run_name)
    return request.model_copy(update={"runtime": runtime, "output": output})


async def _spec_of(handle: LaunchHandle) -> LaunchSpec:
    """What a launch was started with."""
    converter = handle.connection.client.data_converter
    async for event in handle.workflow.fetch_history_events(page_size=1):
        payloads = event.workflow_execution_started_event_attributes.input.payloads
        [launch] = await converter.decode(payloads, [LaunchInput])
        spec: LaunchSpec = launch.spec
        return spec
    raise UsageError(f"the history of launch {handle.launch_id} is gone")


def _request(status: LaunchStatus, name: str) -> RequestStatus:
    for item in status.requests:
        if item.key == name:
            return item
    known = [item.key for item in status.requests]
    raise UsageError(f"launch {status.launch_id} has no request {name!r}{nearest(name, known)}")


async def _tell_request(handle: LaunchHandle, request: RequestStatus, signal: str, *arguments: str) -> bool:
    """Signal a request's workflow; False when it is over, or was not begun."""
    workflow = handle.connection.client.get_workflow_handle(request.workflow_id)
    try:
        await call(lambda: workflow.signal(signal, args=list(arguments)))
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return False
    return True
