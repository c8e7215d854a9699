"""Which Temporal service a command uses, and what it says when there is none."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowFailureError
from temporalio.service import RPCError, RPCStatusCode

from agentcompass.cli import connection as connection_module
from agentcompass.cli.connection import ConnectionConfig, connect, reconnecting, resolve_connection
from agentcompass.cli.embedded_server import NAMESPACE, EmbeddedServer, ServerInfo
from agentcompass.cli.server_process import Ports
from agentcompass.contracts.errors import ConfigurationError, ServiceUnreachableError

ATTRIBUTES = {"AgentCompassTask": "Keyword"}


@pytest.fixture
def no_file(tmp_path: Path) -> dict[str, str]:
    """An environment in which the temporal.toml of whoever runs the tests plays no part."""
    file = tmp_path / "empty.toml"
    file.touch()
    return {"TEMPORAL_CONFIG_FILE": str(file)}


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("connection") / "home"
    server = EmbeddedServer(
        home, search_attributes=ATTRIBUTES, preferred_ports=Ports(closed_port(), closed_port())
    )
    try:
        asyncio.run(server.ensure())
        yield home
    finally:
        asyncio.run(server.stop())


async def running(home: Path) -> ServerInfo:
    return await EmbeddedServer(home, search_attributes=ATTRIBUTES).ensure()


# --- deciding -------------------------------------------------------------------------------


def test_without_an_address_the_embedded_server_is_meant(no_file: dict[str, str]) -> None:
    config = resolve_connection({**no_file, "TEMPORAL_NAMESPACE": "elsewhere"})
    assert config == ConnectionConfig("embedded", NAMESPACE, None)


def test_an_address_means_a_cluster_and_secrets_are_not_shown(no_file: dict[str, str]) -> None:
    env = {
        **no_file,
        "TEMPORAL_ADDRESS": "temporal.example:7233",
        "TEMPORAL_NAMESPACE": "evals",
        "TEMPORAL_API_KEY": "tk-secret",
    }
    config = resolve_connection(env)
    assert (config.mode, config.address, config.namespace) == ("cluster", "temporal.example:7233", "evals")
    assert config.client_options["api_key"] == "tk-secret" and config.client_options["tls"] is True
    assert "tk-secret" not in repr(config)


def test_profiles_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "temporal.toml"
    file.write_text(
        '[profile.default]\nnamespace = "n"\n'
        '[profile.team]\naddress = "team:7233"\n'
        '[profile.lab]\naddress = "lab:7233"\nnamespace = "evals"\n'
    )
    env = {"TEMPORAL_CONFIG_FILE": str(file)}
    assert resolve_connection(env).mode == "embedded"
    assert resolve_connection({**env, "TEMPORAL_PROFILE": "team"}).namespace == "default"
    chosen = resolve_connection({**env, "TEMPORAL_PROFILE": "team"}, profile="lab")
    assert (chosen.mode, chosen.address, chosen.namespace) == ("cluster", "lab:7233", "evals")


def test_unusable_configuration_is_named(tmp_path: Path, no_file: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match=r"TEMPORAL_CONFIG_FILE=.*absent\.toml is not a file"):
        resolve_connection({"TEMPORAL_CONFIG_FILE": str(tmp_path / "absent.toml")})
    with pytest.raises(ConfigurationError, match="'nobody' not found"):
        resolve_connection(no_file, profile="nobody")
    file = tmp_path / "temporal.toml"
    file.write_text("[profile.bare]\n")
    with pytest.raises(ConfigurationError, match="'bare' has no address"):
        resolve_connection({"TEMPORAL_CONFIG_FILE": str(file), "TEMPORAL_PROFILE": "bare"})
    file.write_text("[[[")
    with pytest.raises(ConfigurationError, match="TOML"):
        resolve_connection({"TEMPORAL_CONFIG_FILE": str(file)})
    certificate = {
        "TEMPORAL_TLS_CLIENT_CERT_PATH": "/absent.pem",
        "TEMPORAL_TLS_CLIENT_KEY_PATH": "/absent.key",
    }
    with pytest.raises(ConfigurationError, match=r"/absent\.pem"):
        resolve_connection({**no_file, **certificate, "TEMPORAL_ADDRESS": "a:7233"})


# --- connecting -----------------------------------------------------------------------------


async def test_embedded_connection_works(home: Path) -> None:
    connection = await connect(
        ConnectionConfig("embedded", NAMESPACE, None), home=home, search_attributes=ATTRIBUTES
    )
    assert connection.mode == "embedded" and connection.namespace == connection.client.namespace == NAMESPACE
    assert connection.ui_address is not None
    handle = await connection.client.start_workflow("Any", id="embedded", task_queue="nobody")
    assert (await handle.describe()).status == WorkflowExecutionStatus.RUNNING


async def test_cluster_connection_starts_no_server(
    home: Path, tmp_path: Path, no_file: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    info = await running(home)
    unused = tmp_path / "unused"
    for name, value in (no_file | {"AGENTCOMPASS_HOME": str(unused)}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TEMPORAL_ADDRESS", info.address)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", NAMESPACE)
    connection = await connect()
    assert (connection.mode, connection.address, connection.ui_address) == ("cluster", info.address, None)
    await connection.client.count_workflows()
    assert not unused.exists()


async def test_unreachable_address_is_named_at_once() -> None:
    address = f"127.0.0.1:{closed_port()}"
    began = time.perf_counter()
    with pytest.raises(ServiceUnreachableError, match=f"Temporal at {address} cannot be reached") as caught:
        await connect(ConnectionConfig("cluster", "default", address))
    assert time.perf_counter() - began < 5
    assert "\n" not in str(caught.value) and "TEMPORAL_ADDRESS" in str(caught.value)
    assert caught.value.exit_code == 3


async def test_silent_address_is_given_up_within_the_bound() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        config = ConnectionConfig("cluster", "default", f"127.0.0.1:{silent.getsockname()[1]}")
        began = time.perf_counter()
        with pytest.raises(ServiceUnreachableError, match=r"no answer within 0\.5 s"):
            await connect(config, connect_seconds=0.5)
        assert time.perf_counter() - began < 3


async def test_unknown_namespace_is_named(home: Path) -> None:
    info = await running(home)
    with pytest.raises(ServiceUnreachableError, match="has no namespace 'nowhere'"):
        await connect(ConnectionConfig("cluster", "nowhere", info.address))


# --- reconnecting ---------------------------------------------------------------------------


def outage() -> RPCError:
    return RPCError("connection refused", RPCStatusCode.UNAVAILABLE, b"")


async def test_call_survives_a_restart_of_the_server(home: Path) -> None:
    info = await running(home)
    config = ConnectionConfig("embedded", NAMESPACE, None)
    client = (await connect(config, home=home, search_attributes=ATTRIBUTES)).client
    handle = await client.start_workflow("Any", id="restart", task_queue="nobody")

    os.kill(info.pid, signal.SIGKILL)
    asking = asyncio.create_task(reconnecting(lambda: handle.describe(), deadline=30))
    restarted = await running(home)
    assert restarted.pid != info.pid and restarted.address == info.address
    assert (await asking).status == WorkflowExecutionStatus.RUNNING


async def test_long_poll_survives_a_restart_of_the_server(home: Path) -> None:
    info = await running(home)
    config = ConnectionConfig("embedded", NAMESPACE, None)
    client = (await connect(config, home=home, search_attributes=ATTRIBUTES)).client
    handle = await client.start_workflow("Any", id="poll", task_queue="nobody")
    waiting = asyncio.create_task(reconnecting(lambda: handle.result(), deadline=30))
    done, _ = await asyncio.wait([waiting], timeout=0.3)
    assert not done
    os.kill(info.pid, signal.SIGKILL)
    await running(home)
    await reconnecting(lambda: handle.terminate("end of the test"), deadline=30)
    with pytest.raises(WorkflowFailureError):
        await asyncio.wait_for(waiting, timeout=20)


async def test_long_outage_ends_in_one_clear_error() -> None:
    calls = 0

    async def call() -> None:
        nonlocal calls
        calls += 1
        raise outage()

    with pytest.raises(ServiceUnreachableError, match=r"not answered for 0\.5 s: connection refused"):
        await reconnecting(call, deadline=0.5)
    assert 2 <= calls <= 6


async def test_outages_far_apart_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "FIRST_BACKOFF_SECONDS", 0.01)
    calls = 0

    async def call() -> str:
        nonlocal calls
        calls += 1
        if calls > 4:
            return "done"
        await asyncio.sleep(0.1)  # connected for longer than the deadline of an outage
        raise outage()

    assert await reconnecting(call, deadline=0.05) == "done"


async def test_other_failures_are_not_retried() -> None:
    calls = 0

    async def call() -> None:
        nonlocal calls
        calls += 1
        raise RPCError("no such workflow", RPCStatusCode.NOT_FOUND, b"")

    with pytest.raises(RPCError, match="no such workflow"):
        await reconnecting(call, deadline=5)
    assert calls == 1


async def test_cancelling_an_update_call_is_not_taken_for_an_outage(home: Path) -> None:
    """The SDK reports the cancellation of a waiting task as an error of the update."""
    await running(home)
    config = ConnectionConfig("embedded", NAMESPACE, None)
    client = (await connect(config, home=home, search_attributes=ATTRIBUTES)).client
    handle = await client.start_workflow("Any", id="update", task_queue="nobody")
    asking = asyncio.create_task(reconnecting(lambda: handle.execute_update("u"), deadline=60))
    done, _ = await asyncio.wait([asking], timeout=0.3)
    assert not done
    asking.cancel()
    done, _ = await asyncio.wait([asking], timeout=5)
    assert done
