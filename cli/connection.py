"""Decide which Temporal service a command talks to, and connect to it.

With an address in the standard Temporal client configuration (`TEMPORAL_ADDRESS`, or a profile of
`temporal.toml`) it is that cluster; otherwise the embedded server of this AgentCompass home.

AgentCompassError
├── ConfigurationError           the Temporal client configuration cannot be used: exit code 2
└── ServiceUnreachableError      nothing answers at the address: exit code 3
    └── ServerStartError         the embedded server could not be started (see `embedded_server`)
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal, TypeVar

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfigProfile, ClientConnectConfig
from temporalio.runtime import Runtime
from temporalio.service import RPCError, RPCStatusCode

from ..contracts.errors import ConfigurationError, ServiceUnreachableError
from ..contracts.search_attributes import SEARCH_ATTRIBUTES
from .embedded_server import NAMESPACE, EmbeddedServer, agentcompass_home

ConnectionMode = Literal["cluster", "embedded"]

CONNECT_SECONDS = 10.0
FIRST_BACKOFF_SECONDS = 0.1
LAST_BACKOFF_SECONDS = 2.0

OUTAGE_CODES = frozenset(
    {RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED}
)
"""What calls end with while a server restarts."""
_CUT_OFF = ("transport error", "h2 protocol error", "connection")
"""How the SDK words a call whose connection broke in the middle; its code is UNKNOWN or INTERNAL then."""

T = TypeVar("T")


@dataclass(frozen=True)
class ConnectionConfig:
    """Which service to use."""

    mode: ConnectionMode
    namespace: str
    address: str | None
    """None in embedded mode: the server's port is known once it runs."""
    client_options: ClientConnectConfig = field(default_factory=ClientConnectConfig, repr=False)
    """TLS, API key and headers of a cluster; not shown, because they are secret."""


@dataclass(frozen=True)
class Connection:
    """A connected client and where it is connected to."""

    client: Client
    mode: ConnectionMode
    address: str
    namespace: str
    ui_address: str | None
    """URL of the web UI; known of the embedded server only."""


def resolve_connection(env: Mapping[str, str] = os.environ, profile: str | None = None) -> ConnectionConfig:
    """Read Temporal's standard client configuration from `env` and `temporal.toml`.

    `profile` wins over `TEMPORAL_PROFILE`. Without an address the embedded server is meant, and
    namespace and credentials of the configuration do not apply.

    Raises:
        ConfigurationError: a file or certificate cannot be read, or a profile that was asked for
            does not exist or has no address.
    """
    asked_for = profile or env.get("TEMPORAL_PROFILE")
    # The SDK passes over a missing file, and the user would get another service than named.
    file = env.get("TEMPORAL_CONFIG_FILE")
    if file and not Path(file).is_file():
        raise ConfigurationError(f"TEMPORAL_CONFIG_FILE={file} is not a file")
    try:
        loaded = ClientConfigProfile.load(profile, override_env_vars=dict(env))
        options = loaded.to_client_connect_config()
    except (RuntimeError, OSError, ValueError) as error:
        raise ConfigurationError(f"Temporal client configuration: {error}") from error
    if loaded.address:
        namespace = loaded.namespace or "default"
        return ConnectionConfig("cluster", namespace, loaded.address, options)
    if asked_for:
        raise ConfigurationError(f"Temporal profile '{asked_for}' has no address")
    return ConnectionConfig("embedded", NAMESPACE, None)


async def connect(
    config: ConnectionConfig | None = None,
    *,
    data_converter: DataConverter = DataConverter.default,
    home: Path | None = None,
    search_attributes: Mapping[str, str] = SEARCH_ATTRIBUTES,
    connect_seconds: float = CONNECT_SECONDS,
    namespace_must_exist: bool = True,
    runtime: Runtime | None = None,
) -> Connection:
    """Connect to the service of `config`, by default the one that the environment names.

    In embedded mode the server of `home` (default: `agentcompass_home()`) is started if needed.
    `runtime` is the SDK's, for a process that exposes metrics.

    Raises:
        ServiceUnreachableError: no answer within `connect_seconds`, or no such namespace.
        ConfigurationError: see `resolve_connection`.
    """
    config = config or resolve_connection()
    if config.mode == "embedded":
        server = EmbeddedServer(home or agentcompass_home(), search_attributes=search_attributes)
        info = await server.ensure()
        client = await _connect_client(
            info.address,
            info.namespace,
            ClientConnectConfig(),
            data_converter,
            connect_seconds,
            runtime=runtime,
        )
        return Connection(client, "embedded", info.address, info.namespace, info.ui_address)
    if config.address is None:
        raise ConfigurationError("A cluster needs an address: set TEMPORAL_ADDRESS")
    client = await _connect_client(
        config.address,
        config.namespace,
        config.client_options,
        data_converter,
        connect_seconds,
        namespace_must_exist=namespace_must_exist,
        runtime=runtime,
    )
    return Connection(client, "cluster", config.address, config.namespace, None)


async def revived(connection: Connection, *, data_converter: DataConverter) -> Connection | None:
    """A new connection when the embedded server behind `connection` is gone, which starts it again.

    ``None`` when there is nothing to do. It looks at a file and a process only, so a poll can
    afford it. A server that another command started again elsewhere is found, too.

    Raises:
        ServerStartError: the server cannot be started again.
    """
    if connection.mode != "embedded":
        return None
    status = EmbeddedServer(agentcompass_home()).status()
    if status.running and status.address == connection.address:
        return None
    return await connect(
        ConnectionConfig("embedded", connection.namespace, None), data_converter=data_converter
    )


async def _connect_client(
    address: str,
    namespace: str,
    options: ClientConnectConfig,
    data_converter: DataConverter,
    connect_seconds: float,
    *,
    namespace_must_exist: bool = True,
    runtime: Runtime | None = None,
) -> Client:
    merged = ClientConnectConfig(**{**options, "target_host": address, "namespace": namespace})
    try:
        async with asyncio.timeout(connect_seconds):
            client = await Client.connect(**merged, data_converter=data_converter, runtime=runtime)
            if namespace_must_exist:
                await _check_namespace(client, address, connect_seconds)
            return client
    except TimeoutError as error:
        reason = f"no answer within {connect_seconds:g} s"
        raise ServiceUnreachableError(_advice(address, reason)) from error
    except (RuntimeError, RPCError) as error:
        # RuntimeError is what the SDK raises when a connection cannot be made.
        raise ServiceUnreachableError(_advice(address, _reason(error))) from error


async def _check_namespace(client: Client, address: str, connect_seconds: float) -> None:
    """Name a wrong namespace now: later each call would fail with a bare NOT_FOUND."""
    try:
        await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=client.namespace),
            retry=True,
            timeout=timedelta(seconds=connect_seconds),
        )
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise ServiceUnreachableError(
                f"Temporal at {address} has no namespace '{client.namespace}': set "
                "TEMPORAL_NAMESPACE, or create it with: agentcompass setup"
            ) from error
        # A key may well be allowed to run workflows and not to read the namespace's settings.
        if error.status not in {RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED}:
            raise


def _advice(address: str, reason: str) -> str:
    return (
        f"Temporal at {address} cannot be reached: {reason}. Check that it runs and that "
        "TEMPORAL_ADDRESS, TLS and API key settings (or the temporal.toml profile) are right; "
        "without an address the embedded server is used"
    )


def _reason(error: BaseException) -> str:
    """The innermost message of the SDK's nested debug text, or its first line."""
    text = str(error)
    quoted = re.findall(r'(?:message|error): "([^"]+)"', text)
    return (quoted[-1] if quoted else text.splitlines()[0] if text else repr(error))[:200]


async def reconnecting(call: Callable[[], Awaitable[T]], *, deadline: float) -> T:
    """Await `call()` again for as long as it fails because the service is away.

    A long poll fails when its server restarts, although nothing is wrong with what it waits for.
    `deadline` is in seconds and counts from the first failure of an outage; a failure that comes
    more than `deadline` after the one before begins a new outage. `call` must be safe to repeat,
    and should not wait without an end of its own: a poll has been seen to stay unanswered.

    Raises:
        ServiceUnreachableError: the outage lasted longer than `deadline`.
        RPCError: every other kind of failure, at once.
    """
    loop = asyncio.get_running_loop()
    outage_began = last_failure = float("-inf")
    backoff = FIRST_BACKOFF_SECONDS
    while True:
        try:
            return await call()
        except (RPCError, WorkflowUpdateRPCTimeoutOrCancelledError) as error:
            if not _is_outage(error):
                raise
            now = loop.time()
            if now - last_failure > deadline:
                outage_began, backoff = now, FIRST_BACKOFF_SECONDS
            last_failure = now
            if now - outage_began + backoff > deadline:
                raise ServiceUnreachableError(
                    f"Temporal has not answered for {deadline:g} s: {_reason(error)}"
                ) from error
        # Jitter, so that all the commands that wait do not come back in one burst.
        await asyncio.sleep(backoff * random.uniform(0.5, 1.0))
        backoff = min(backoff * 2, LAST_BACKOFF_SECONDS)


def is_outage(error: RPCError) -> bool:
    """True for what a call ends with when the server restarts, whatever moment it was in."""
    if error.status in OUTAGE_CODES:
        return True
    broken = error.status in (RPCStatusCode.UNKNOWN, RPCStatusCode.INTERNAL)
    return broken and any(words in error.message.lower() for words in _CUT_OFF)


def _is_outage(error: RPCError | WorkflowUpdateRPCTimeoutOrCancelledError) -> bool:
    if isinstance(error, RPCError):
        return is_outage(error)
    # The SDK turns the cancellation of our own task into this error: that one must get through.
    task = asyncio.current_task()
    return task is None or task.cancelling() == 0
