"""The worker: connects, registers workflows and activities, serves a task queue, drains on SIGTERM.

Start it by ``agentcompass worker`` or ``agentcompass-worker``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NoReturn

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Worker

from . import __version__
from .activities.data_converter import data_converter
from .activities.host import home_folder, host_name
from .activities.reaper import Reaper, ReaperLoop
from .activities.redaction import RedactingFilter
from .activities.registration import activity_methods
from .activities.services import Services, WorkerSettings
from .activities.store import install_run_log
from .cli.connection import Connection, connect
from .cli.embedded_server import agentcompass_home
from .cli.server_watch import keep_server
from .cli.worker_process import LaunchWorker
from .contracts.workflows import POOL_QUEUE, launch_workflow_id
from .plugins.registry import load_registry
from .workflows.provider_pool import ProviderPoolWorkflow
from .workflows.registration import WORKFLOWS
from .workflows.runner import sandbox

DEFAULT_TASK_QUEUE = "agentcompass"
_LOG = logging.getLogger("agentcompass.worker")
_TOLD = frozenset({_LOG.name, "agentcompass.reaper"})
"""Loggers whose every line goes to standard error."""

HEARTBEAT_THROTTLE = timedelta(seconds=1)
"""The SDK's default holds heartbeats back for most of their timeout: details would die with the
worker and cancellation would arrive late."""

DRAIN_SECONDS = 10.0
"""How long running activities may go on after SIGTERM before they are handed to another worker."""

LAUNCH_PATIENCE_SECONDS = 30.0

POOLS_AGAIN_SECONDS = 5.0

REAPER_SECONDS = 300.0
"""Between two looks for environments that were left behind on this machine."""

LAST_SWEEP_SECONDS = 20.0
"""What the removal of a launch's own left-over environments may take at its end."""

_SPARE_THREADS = 16
"""For what is not an activity's own work: looking up names, draining."""

BUILD_ID = f"agentcompass-{__version__}"
"""Shown in the UI. Without one the SDK hashes the code of every loaded module: a second of CPU time."""


@dataclass(frozen=True)
class WorkerOptions:
    """How one worker process serves its queue."""

    task_queue: str = DEFAULT_TASK_QUEUE
    concurrency: int = 64
    """Activities at once; set it above the launch's task concurrency."""
    private: bool = False
    """True when no other machine serves the queue, as in embedded mode."""
    until_closed: str = ""
    """A launch id: leave when that launch is over."""


def host_queue() -> str:
    """The queue of this machine, for environments that live on it."""
    return f"host/{host_name()}"


def create_runtime() -> Runtime:
    """A runtime whose core logs warnings of our own only; it writes to stdout, so drain it."""
    filter = TelemetryFilter(core_level="ERROR", other_level="ERROR")
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=filter)))


@contextlib.asynccontextmanager
async def running_worker(client: Client, options: WorkerOptions) -> AsyncIterator[Services]:
    """Serve the queue, and this machine's own one, until the block is left; then drain."""
    queue = options.task_queue
    settings = WorkerSettings(queue, queue if options.private else host_queue())
    services = Services(client, settings)
    activities = activity_methods(services)
    _provide_threads(options.concurrency)
    async with contextlib.AsyncExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(8, thread_name_prefix="workflow"))
        main = Worker(
            client,
            task_queue=queue,
            workflows=WORKFLOWS,
            activities=activities,
            workflow_task_executor=threads,
            workflow_runner=sandbox(client.data_converter),
            # Every eviction is a replay: keep the cache well above the window of attempts.
            max_cached_workflows=4 * options.concurrency + 100,
            max_concurrent_activities=options.concurrency,
            max_concurrent_local_activities=options.concurrency,
            max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
            default_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
            graceful_shutdown_timeout=timedelta(seconds=DRAIN_SECONDS),
            build_id=BUILD_ID,
        )
        await stack.enter_async_context(main)
        if not settings.private:
            host = Worker(
                client,
                task_queue=settings.host_queue,
                activities=activities,
                max_concurrent_activities=options.concurrency,
                max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
                default_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
                graceful_shutdown_timeout=timedelta(seconds=DRAIN_SECONDS),
                build_id=BUILD_ID,
            )
            await stack.enter_async_context(host)
        serving = asyncio.create_task(_serve_pools(client, services))
        stack.push_async_callback(_cancel, serving)
        yield services


async def _serve_pools(client: Client, services: Services) -> None:
    """Serve the pools as soon as there is one: they have a queue of their own, because launches of an
    embedded server share none, and those of a cluster not always."""
    # The worker that this one replaces may have left attempts that wait for a pool.
    while not services.pools.found.is_set():
        try:
            await services.pools.look()
            break
        except RPCError as error:
            _LOG.warning("pools cannot be looked for: %s", error.message)
            await asyncio.sleep(POOLS_AGAIN_SECONDS)
    await services.pools.found.wait()
    worker = Worker(
        client,
        task_queue=POOL_QUEUE,
        workflows=[ProviderPoolWorkflow],
        activities=activity_methods(services),
        no_remote_activities=True,
        workflow_runner=sandbox(client.data_converter),
        max_cached_workflows=20,
        graceful_shutdown_timeout=timedelta(seconds=DRAIN_SECONDS),
        build_id=BUILD_ID,
    )
    await worker.run()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _provide_threads(concurrency: int) -> None:
    """A thread for every activity: the default of a few more than there are CPUs makes attempts wait
    for one another's disks and blocking hooks. Threads are made when they are first needed."""
    executor = ThreadPoolExecutor(2 * concurrency + _SPARE_THREADS, thread_name_prefix="activity")
    asyncio.get_running_loop().set_default_executor(executor)


def set_up_logging() -> None:
    """Runs log into their directories; warnings, and what the worker does, go to standard error as well."""
    install_run_log()
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.addFilter(lambda record: record.levelno >= logging.WARNING or record.name in _TOLD)
    handler.addFilter(RedactingFilter())  # tracebacks of extensions and of the SDK may hold anything
    logging.getLogger().addHandler(handler)


async def run_worker(options: WorkerOptions) -> None:
    """Serve until SIGTERM or SIGINT, or until the launch of ``options.until_closed`` is over."""
    set_up_logging()
    connection = await connect(data_converter=data_converter())
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running_worker(connection.client, options) as services:
        _LOG.info("serving task queue %s as %s", options.task_queue, os.getpid())
        reaper = ReaperLoop(
            Reaper(services, load_registry(), home_folder(), host_name()), every_seconds=REAPER_SECONDS
        )
        sweeping = asyncio.create_task(reaper.run())
        watchers = [asyncio.create_task(stop.wait())]
        if options.until_closed:
            watchers.append(asyncio.create_task(_until_closed(connection, options.until_closed)))
        elif connection.mode == "embedded":
            watchers.append(asyncio.create_task(keep_server(connection)))
        ended, pending = await asyncio.wait(watchers, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        _LOG.info("draining")
    is_over = bool(options.until_closed) and watchers[1] not in pending
    await _end_sweeping(sweeping, reaper, options.until_closed if is_over else "")
    if options.private and is_over:
        LaunchWorker(agentcompass_home(), options.until_closed).forget()  # nobody may follow it to its end
    for task in ended:
        task.result()  # raises why a watcher gave up


async def _end_sweeping(sweeping: asyncio.Task[None], reaper: ReaperLoop, launch_id: str) -> None:
    """Stop looking after environments; first remove what attempts of a launch that is over have left."""
    await _cancel(sweeping)
    if launch_id:
        with contextlib.suppress(TimeoutError):  # the next worker of this machine goes on with it
            async with asyncio.timeout(LAST_SWEEP_SECONDS):
                await reaper.once(launch_id)


async def _until_closed(connection: Connection, launch_id: str) -> Literal[True]:
    """Return when the launch is over or its history is gone; ride out outages of the server.

    A worker is started together with its launch, so for a while there may be no launch yet.
    """
    patience = time.monotonic() + LAUNCH_PATIENCE_SECONDS
    handle = connection.client.get_workflow_handle(launch_workflow_id(launch_id))
    while True:
        try:
            description = await handle.describe()
            if description.status is not WorkflowExecutionStatus.RUNNING:
                return True
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                if time.monotonic() > patience:
                    return True
            else:
                _LOG.warning("the server does not answer: %s", error.message)
        await asyncio.sleep(1.0)


def main() -> NoReturn:
    """Entry point of the ``agentcompass-worker`` script: ``agentcompass worker`` by another name."""
    from .cli.main import leave, run_cli

    leave(run_cli(["worker", *sys.argv[1:]]))
