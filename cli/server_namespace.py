"""Set a namespace up: of the embedded server, and, as far as search attributes go, of a cluster."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    GetSystemInfoRequest,
    UpdateNamespaceRequest,
)
from temporalio.service import ConnectConfig, RPCError, ServiceClient

from .server_process import LOOPBACK, NAMESPACE, ServerStartError

RETENTION = timedelta(days=30)
CALL_TIMEOUT = timedelta(seconds=5)
SETTLE_SECONDS = 15.0
SETTLE_POLL_SECONDS = 0.05


class SearchAttributeTypeError(ServerStartError):
    """A search attribute of our name has a type of somebody else."""


async def connect_if_served(port: int) -> ServiceClient | None:
    """Return a connection if a server at `port` is healthy and knows our namespace."""
    try:
        # A bare connection first: it is refused at once while the server starts, and it keeps
        # the SDK from logging failures that are expected.
        async with asyncio.timeout(2):
            _, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.close()
        async with asyncio.timeout(CALL_TIMEOUT.total_seconds()):
            client = await ServiceClient.connect(ConnectConfig(target_host=f"{LOOPBACK}:{port}"))
        if not await client.check_health(timeout=CALL_TIMEOUT):
            return None
        await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=NAMESPACE), timeout=CALL_TIMEOUT
        )
    except (OSError, TimeoutError, RuntimeError, RPCError):
        # RuntimeError is what the SDK raises when a connection cannot be made.
        return None
    return client


async def server_version(client: ServiceClient) -> str:
    """The version of the Temporal server."""
    info = await client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=CALL_TIMEOUT)
    return info.server_version


async def set_up_namespace(client: ServiceClient, search_attributes: Mapping[str, str]) -> None:
    """Bring retention and search attributes to what we want, and verify both.

    The server's own flags do this for a new database only: an existing namespace keeps its
    retention, and attributes that a newer AgentCompass adds are ignored.

    Raises:
        ServerStartError: a setting does not take effect, or an attribute has another type.
    """
    await _set_retention(client)
    await add_search_attributes(client, search_attributes)


async def _set_retention(client: ServiceClient) -> None:
    if await _retention(client) == RETENTION:
        return
    wanted = Duration()
    wanted.FromTimedelta(RETENTION)
    await client.workflow_service.update_namespace(
        UpdateNamespaceRequest(
            namespace=NAMESPACE, config=NamespaceConfig(workflow_execution_retention_ttl=wanted)
        ),
        timeout=CALL_TIMEOUT,
    )
    if (actual := await _retention(client)) != RETENTION:
        raise ServerStartError(f"The server keeps histories for {actual} instead of {RETENTION}")


async def _retention(client: ServiceClient) -> timedelta:
    answer = await client.workflow_service.describe_namespace(
        DescribeNamespaceRequest(namespace=NAMESPACE), timeout=CALL_TIMEOUT
    )
    return answer.config.workflow_execution_retention_ttl.ToTimedelta()


async def add_search_attributes(
    client: ServiceClient, search_attributes: Mapping[str, str], namespace: str = NAMESPACE
) -> list[str]:
    """Register what is missing of ``search_attributes`` (name to type); returns the names added.

    Returns when the server shows them all.

    Raises:
        SearchAttributeTypeError: an attribute exists with another type; nothing was added.
        ServerStartError: an attribute does not appear.
        RPCError: the server does not let us.
    """
    wanted = {name: _indexed_type(type_) for name, type_ in search_attributes.items()}
    missing = {
        name: wanted[name] for name in await missing_search_attributes(client, search_attributes, namespace)
    }
    if missing:
        await client.operator_service.add_search_attributes(
            AddSearchAttributesRequest(namespace=namespace, search_attributes=missing),
            timeout=CALL_TIMEOUT,
        )
        await _await_search_attributes(client, set(missing), namespace)
    return list(missing)


async def missing_search_attributes(
    client: ServiceClient, search_attributes: Mapping[str, str], namespace: str = NAMESPACE
) -> list[str]:
    """The names of ``search_attributes`` that the namespace lacks.

    Raises:
        SearchAttributeTypeError: one exists with another type.
        RPCError: the server does not tell.
    """
    present = await _search_attributes(client, namespace)
    for name in search_attributes.keys() & present.keys():
        if _indexed_type(search_attributes[name]) != present[name]:
            raise SearchAttributeTypeError(
                f"Search attribute {name} exists with another type than "
                f"{search_attributes[name]}: remove it with `temporal operator search-attribute`"
            )
    return [name for name in search_attributes if name not in present]


async def _await_search_attributes(client: ServiceClient, names: set[str], namespace: str) -> None:
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + SETTLE_SECONDS
    while lacking := names - (await _search_attributes(client, namespace)).keys():
        if loop.time() >= give_up_at:
            raise ServerStartError(f"The server does not register the search attributes {sorted(lacking)}")
        await asyncio.sleep(SETTLE_POLL_SECONDS)


async def _search_attributes(client: ServiceClient, namespace: str) -> dict[str, IndexedValueType.ValueType]:
    answer = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=namespace), timeout=CALL_TIMEOUT
    )
    return dict(answer.custom_attributes)


def _indexed_type(name: str) -> IndexedValueType.ValueType:
    """`KeywordList` to `INDEXED_VALUE_TYPE_KEYWORD_LIST`."""
    words = re.findall(r"[A-Z][a-z]*", name)
    return IndexedValueType.Value("INDEXED_VALUE_TYPE_" + "_".join(words).upper())
