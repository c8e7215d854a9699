"""What a Temporal cluster needs before AgentCompass can use it, and whether it has it."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ..contracts.base import Contract
from ..contracts.errors import ServiceUnreachableError, UsageError
from ..contracts.search_attributes import SEARCH_ATTRIBUTES
from .connection import Connection, connect
from .reaper_schedule import create_reaper_schedule
from .server_namespace import (
    RETENTION,
    SearchAttributeTypeError,
    add_search_attributes,
    missing_search_attributes,
)

CALL_TIMEOUT = timedelta(seconds=10)
SETTLE_SECONDS = 60.0

_NOT_ALLOWED = {RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED, RPCStatusCode.UNAUTHENTICATED}
"""What a server says that lets others do this, as Temporal Cloud does."""


class SetupReport(Contract):
    """What ``agentcompass setup`` did and found."""

    address: str
    namespace: str
    created_namespace: bool = False
    added_search_attributes: list[str]
    present_search_attributes: list[str]
    created_schedule: bool = False
    """Of the schedule that removes environments that were left behind; a cluster has it."""


async def set_up() -> SetupReport:
    """Bring the configured namespace to what AgentCompass needs; a second call changes nothing.

    Raises:
        UsageError: the server does not let us, or a search attribute has another type.
        ServiceUnreachableError: nothing answers, or a setting does not take effect.
    """
    connection = await connect(namespace_must_exist=False)
    created = connection.mode == "cluster" and await _create_namespace(connection)
    try:
        if created:
            await _await_namespace(connection)
        added = await add_search_attributes(
            connection.client.service_client, SEARCH_ATTRIBUTES, connection.namespace
        )
    except SearchAttributeTypeError as error:
        raise UsageError(str(error)) from None
    except RPCError as error:
        if error.status not in _NOT_ALLOWED:
            raise
        wanted = ", ".join(f"{name} ({type_})" for name, type_ in SEARCH_ATTRIBUTES.items())
        raise UsageError(
            f"Temporal at {connection.address} does not let this client register search attributes "
            f"({error.message}); have these registered in namespace '{connection.namespace}': {wanted}"
        ) from None
    scheduled = connection.mode == "cluster" and await _create_schedule(connection)
    return SetupReport(
        created_schedule=scheduled,
        address=connection.address,
        namespace=connection.namespace,
        created_namespace=created,
        added_search_attributes=added,
        present_search_attributes=[name for name in SEARCH_ATTRIBUTES if name not in added],
    )


async def _create_schedule(connection: Connection) -> bool:
    """True when it was created. A server that does not let us is left as it is: workers clean up, too."""
    try:
        return await create_reaper_schedule(connection.client)
    except RPCError as error:
        if error.status in _NOT_ALLOWED:
            return False
        raise


async def check_set_up(connection: Connection) -> None:
    """Refuse a cluster that would refuse our workflows. A server that does not tell is taken as it is.

    Raises ``UsageError``.
    """
    if connection.mode != "cluster":
        return  # the embedded server is set up whenever it starts
    try:
        missing = await missing_search_attributes(
            connection.client.service_client, SEARCH_ATTRIBUTES, connection.namespace
        )
    except SearchAttributeTypeError as error:
        raise UsageError(str(error)) from None
    except RPCError as error:
        if error.status in _NOT_ALLOWED:
            return
        raise
    if missing:
        raise not_set_up(connection, f"lacks the search attributes {', '.join(missing)}")


def not_set_up(connection: Connection, problem: str) -> UsageError:
    """Says what is wrong with a cluster, and the command that mends it."""
    return UsageError(
        f"namespace '{connection.namespace}' of Temporal at {connection.address} {problem}; "
        "run this once: agentcompass setup"
    )


async def _await_namespace(connection: Connection) -> None:
    """Servers look for new namespaces every few seconds only. Raises ``ServiceUnreachableError``."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + SETTLE_SECONDS
    while True:
        try:
            await missing_search_attributes(
                connection.client.service_client, SEARCH_ATTRIBUTES, connection.namespace
            )
            return
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
        if loop.time() >= give_up_at:
            raise ServiceUnreachableError(
                f"namespace '{connection.namespace}' was created at {connection.address}, "
                f"and is not served after {SETTLE_SECONDS:g} s; try again"
            )
        await asyncio.sleep(0.5)


async def _create_namespace(connection: Connection) -> bool:
    """True when it was created; False when it was there."""
    client: Client = connection.client
    try:
        await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=connection.namespace), timeout=CALL_TIMEOUT
        )
        return False
    except RPCError as error:
        if error.status in _NOT_ALLOWED:
            return False  # who may not look may still be allowed to register search attributes
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
    retention = Duration()
    retention.FromTimedelta(RETENTION)
    try:
        await client.workflow_service.register_namespace(
            RegisterNamespaceRequest(
                namespace=connection.namespace, workflow_execution_retention_period=retention
            ),
            timeout=CALL_TIMEOUT,
        )
    except RPCError as refusal:
        if refusal.status is RPCStatusCode.ALREADY_EXISTS:
            return False  # somebody else was faster
        if refusal.status not in _NOT_ALLOWED:
            raise
        raise UsageError(
            f"namespace '{connection.namespace}' does not exist at {connection.address}, and this client may "
            f"not create it ({refusal.message}); have it created, or set TEMPORAL_NAMESPACE to another one"
        ) from None
    return True
