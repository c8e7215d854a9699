"""The worker: connects, registers workflows and activities, serves a task queue, drains on SIGTERM.

Start it by ``agentcompass worker`` or ``agentcompass-worker``.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import hashlib
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.common import MetricMeter
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Interceptor, Worker, WorkerConfig

from .activities.data_converter import data_converter
from .activities.environment_census import keep_counting
from .activities.environments import Environments
from .activities.host import home_folder, host_name
from .activities.orphans import look_for_orphans, until_settled
from .activities.presence import Presence
from .activities.reaper import Reaper, ReaperLoop
from .activities.redaction import RedactingFilter
from .activities.registration import activity_methods
from .activities.services import Services, WorkerSettings
from .activities.store import install_run_log
from .activities.telemetry import WorkerMetrics
from .cli.connection import Connection, connect
from .cli.embedded_server import agentcompass_home
from .cli.left_behind import LeftBehind
from .cli.server_watch import keep_server
from .cli.serving.addresses import ListenAddress
from .cli.serving.deployment import UNVERSIONED_BUILD_ID, DeploymentVersion
from .cli.serving.health import Health, serving_health
from .cli.serving.loop_guard import LIMIT_VARIABLE, guarded_loop, loop_limit
from .cli.serving.runtime import create_runtime
from .cli.serving.tracing import tracing
from .cli.worker_process import LaunchWorker
from .contracts.errors import UsageError
from .contracts.launch import LaunchResult
from .contracts.workflows import POOL_QUEUE, launch_workflow_id, places_queue, presence_queue
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

_LAUNCH_OVER = "launch is over"

POOLS_AGAIN_SECONDS = 15.0
"""How often a worker that has met no pool looks whether there is one."""
PLACES = 10_000
"""Attempts that may wait for a place in one worker process; waiting costs little."""

REAPER_SECONDS = 300.0
"""Between two looks for environments that were left behind on this machine."""

SETTLE_SECONDS = 300.0
"""What requests of a launch that was terminated may take to clean up, whose worker would leave with it."""
PARENT_SECONDS = 10.0
"""How long a schedule's workflow may take to note that its launch is over."""

LAST_SWEEP_SECONDS = 20.0
"""What the removal of a launch's own left-over environments may take at its end."""

_SPARE_THREADS = 16
"""For what is not an activity's own work: looking up names, draining."""

_M_ARENA_MAX = -8
"""The parameter's number in glibc's malloc.h."""
_ARENAS = 2


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
    version: DeploymentVersion | None = None
    """Of the deployment that this worker is part of; ``None`` takes work of any version."""
    metrics_address: ListenAddress | None = None
    health_address: ListenAddress | None = None
    drain_seconds: float = DRAIN_SECONDS


def host_queue(task_queue: str) -> str:
    """The queue of this machine, for environments that live on it.

    Users of one machine do not reach each other's environments, whose files are below the home of each; and workers of
    another task queue may have other extensions.
    """
    place = f"{home_folder().resolve()}\0{task_queue}"
    return f"host/{host_name()}/{hashlib.sha256(os.fsencode(place)).hexdigest()[:8]}"


@contextlib.asynccontextmanager
async def running_worker(
    client: Client, options: WorkerOptions, *, interceptors: Sequence[Interceptor] = (), metrics: MetricMeter
) -> AsyncIterator[Services]:
    """Serve the queue, and this machine's own one, until the block is left; then drain."""
    queue = options.task_queue
    settings = WorkerSettings(queue, queue if options.private else host_queue(queue))
    services = Services(client, settings, WorkerMetrics(metrics))
    activities = activity_methods(services)
    _provide_threads(options.concurrency)
    version = options.version
    shared: WorkerConfig = {
        "client": client,
        "activities": activities,
        "interceptors": interceptors,
        "max_concurrent_activities": options.concurrency,
        "max_heartbeat_throttle_interval": HEARTBEAT_THROTTLE,
        "default_heartbeat_throttle_interval": HEARTBEAT_THROTTLE,
        "graceful_shutdown_timeout": timedelta(seconds=options.drain_seconds),
    }
    if version is None:
        shared["build_id"] = UNVERSIONED_BUILD_ID
    else:
        shared["deployment_config"] = version.config
    async with contextlib.AsyncExitStack() as stack:
        if options.metrics_address is not None:
            counting = asyncio.create_task(keep_counting(services))
            stack.callback(counting.cancel)
        threads = stack.enter_context(ThreadPoolExecutor(8, thread_name_prefix="workflow"))
        workers = [Worker(**config) for config in _configs(services, options, shared, threads)]
        for worker in workers:
            await stack.enter_async_context(worker)
        stack.push_async_callback(_drain, workers)
        for task in (
            asyncio.create_task(look_for_orphans(client, options.until_closed)),
            asyncio.create_task(_serve_pools(services, shared)),
        ):
            task.add_done_callback(_tell_failure)
            stack.push_async_callback(_cancel, task)
        yield services


def _configs(
    services: Services, options: WorkerOptions, shared: WorkerConfig, threads: ThreadPoolExecutor
) -> Iterator[WorkerConfig]:
    """One for each queue that a worker process serves, but for that of the pools."""
    settings = services.settings
    yield {
        **shared,
        "task_queue": settings.task_queue,
        "workflows": WORKFLOWS,
        "workflow_task_executor": threads,
        "workflow_runner": sandbox(services.client.data_converter, versioned=options.version is not None),
        # Every eviction is a replay: keep the cache well above the window of attempts.
        "max_cached_workflows": 4 * options.concurrency + 100,
        "max_concurrent_local_activities": options.concurrency,
    }
    if not settings.private:
        yield {**shared, "task_queue": settings.host_queue}
        yield {
            **shared,
            "task_queue": presence_queue(settings.host_queue),
            "activities": [Presence().be_present],
            "max_concurrent_activities": 2,
        }
    # Always: what an earlier worker had planned may wait there for a pool that is not there any more.
    yield {
        **shared,
        "task_queue": places_queue(settings.task_queue),
        "activities": [Environments(services).open_environment],
        "max_concurrent_activities": PLACES,
        "max_concurrent_activity_task_polls": 2,
    }


async def _drain(workers: Sequence[Worker]) -> None:
    """All at once: one after the other, the last would go on taking work while the first end theirs."""
    await asyncio.gather(*(worker.shutdown() for worker in workers))


async def _serve_pools(services: Services, shared: WorkerConfig) -> None:
    """Serve the pools as soon as there is one.

    Pools have a queue of their own, because launches of an embedded server share none, and those of a cluster not always.
    """
    # A worker that is gone may have left attempts that wait for a pool.
    while not services.pools.found.is_set():
        try:
            await services.pools.look()
        except RPCError as error:
            _LOG.warning("pools cannot be looked for: %s", error.message)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POOLS_AGAIN_SECONDS):
                await services.pools.found.wait()
    versioned = "deployment_config" in shared
    options: WorkerConfig = {
        **shared,
        "task_queue": POOL_QUEUE,
        "activities": [],
        "workflows": [ProviderPoolWorkflow],
        "workflow_runner": sandbox(services.client.data_converter, versioned=versioned),
        "max_cached_workflows": 20,
    }
    await Worker(**options).run()


def _tell_failure(task: asyncio.Task[None]) -> None:
    """What ends it must be heard of when it happens, not when the worker leaves."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.error("a task in the background of the worker has ended", exc_info=error)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _provide_threads(concurrency: int) -> None:
    """A thread for every activity: the default of a few more than there are CPUs makes attempts wait
    for one another's disks and blocking hooks. Threads are made when they are first needed."""
    executor = ThreadPoolExecutor(2 * concurrency + _SPARE_THREADS, thread_name_prefix="activity")
    asyncio.get_running_loop().set_default_executor(executor)


def share_arenas() -> None:
    """Let all threads share two of malloc's arenas.

    glibc gives threads up to eight arenas a processor, and memory that is freed in one serves its own threads
    only: a worker grows with the attempts it has seen while what it uses stays the same. Call it before
    there are threads. ``MALLOC_ARENA_MAX`` wins; without glibc there is nothing to do.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and "MALLOC_ARENA_MAX" not in os.environ:
        mallopt(_M_ARENA_MAX, _ARENAS)


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
    share_arenas()
    set_up_logging()
    limit = loop_limit(os.environ.get(LIMIT_VARIABLE))
    runtime = create_runtime(options.metrics_address)
    connection = await connect(data_converter=data_converter(), runtime=runtime)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    version = options.version.build_id if options.version else UNVERSIONED_BUILD_ID
    health = Health(options.task_queue, version)
    with tracing() as interceptors:
        async with serving_health(health, connection.client, options.health_address):
            serving = running_worker(
                connection.client, options, interceptors=interceptors, metrics=runtime.metric_meter
            )
            async with serving as services, guarded_loop(limit):
                reaper = ReaperLoop(
                    Reaper(services, load_registry(), home_folder(), host_name()),
                    every_seconds=REAPER_SECONDS,
                )
                sweeping = asyncio.create_task(reaper.run())
                looking = asyncio.create_task(_look_for_left_behind(connection))
                looking.add_done_callback(_tell_failure)
                health.phase = "serving"
                if options.until_closed:
                    LaunchWorker(agentcompass_home(), options.until_closed).note_serving()
                _LOG.info("serving task queue %s as %s, %s", options.task_queue, os.getpid(), version)
                ended = await _first_reason_to_leave(connection, options, stop)
                await _cancel(looking)
                health.phase = "draining"
                _LOG.info("draining")
    is_over = ended.get_name() == _LAUNCH_OVER
    await _end_sweeping(sweeping, reaper, options.until_closed if is_over else "")
    if is_over:
        LaunchWorker(agentcompass_home(), options.until_closed).forget()  # nobody may follow it to its end
    ended.result()  # raises why a watcher gave up


async def _look_for_left_behind(connection: Connection) -> None:
    if connection.mode == "embedded":
        await LeftBehind(connection).look_again_and_again()


async def _end_sweeping(sweeping: asyncio.Task[None], reaper: ReaperLoop, launch_id: str) -> None:
    """Stop looking after environments; first remove what attempts of a launch that is over have left."""
    await _cancel(sweeping)
    if launch_id:
        with contextlib.suppress(TimeoutError):  # the next worker of this machine goes on with it
            async with asyncio.timeout(LAST_SWEEP_SECONDS):
                await reaper.once(launch_id)


async def _first_reason_to_leave(
    connection: Connection, options: WorkerOptions, stop: asyncio.Event
) -> asyncio.Task[object]:
    """The watcher that ended first: a signal, the launch that is over, or a server that cannot be kept."""
    watchers: list[asyncio.Task[object]] = [asyncio.create_task(stop.wait())]
    if options.until_closed:
        over = _until_closed(connection, options.until_closed)
        watchers.append(asyncio.create_task(over, name=_LAUNCH_OVER))
    elif connection.mode == "embedded":
        watchers.append(asyncio.create_task(keep_server(connection)))
    done, pending = await asyncio.wait(watchers, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    return next((task for task in watchers[1:] if task in done), watchers[0])


async def _until_closed(connection: Connection, launch_id: str) -> Literal[True]:
    """Return when the launch is over or its history is gone; ride out outages of the server.

    A worker is started together with its launch, so for a while there may be no launch yet.
    """
    patience, known = time.monotonic() + LAUNCH_PATIENCE_SECONDS, False
    handle = connection.client.get_workflow_handle(launch_workflow_id(launch_id))
    while True:
        try:
            description = await handle.describe()
            known = True
            if description.status is not WorkflowExecutionStatus.RUNNING:
                await _settle(connection.client, launch_id, description)
                return True
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                if known:
                    return True
                if time.monotonic() > patience:
                    raise UsageError(
                        f"there is no launch {launch_id!r} for which a worker could wait"
                    ) from None
            else:
                _LOG.warning("the server does not answer: %s", error.message)
        await asyncio.sleep(1.0)


async def _settle(client: Client, launch_id: str, launch: WorkflowExecutionDescription) -> None:
    """Serve what outlives the launch: the schedule's workflow that waits for it, and requests that nobody ended."""
    if launch.status is not WorkflowExecutionStatus.COMPLETED or await _has_failed_requests(
        client, launch_id
    ):
        try:
            await until_settled(client, launch_id, SETTLE_SECONDS)
        except TimeoutError:
            _LOG.warning("requests of the launch did not end within %g s", SETTLE_SECONDS)
    if launch.parent_id:
        parent = client.get_workflow_handle(launch.parent_id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PARENT_SECONDS):
                # The server tells nobody of its own accord.
                while (await parent.describe()).status is WorkflowExecutionStatus.RUNNING:  # noqa: ASYNC110
                    await asyncio.sleep(0.2)


async def _has_failed_requests(client: Client, launch_id: str) -> bool:
    """True when one of them may have been terminated, and have left its attempts."""
    workflow = client.get_workflow_handle(launch_workflow_id(launch_id), result_type=LaunchResult)
    return any(item.status == "failed" for item in (await workflow.result()).requests)
