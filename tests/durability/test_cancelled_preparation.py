"""A worker that dies, or cannot go on, while a request is cancelled that it prepares."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from activity_fakes import FakeActivities, Gate
from temporalio.client import Client
from temporalio.common import RetryPolicy
from workflow_server import stage

from agentcompass.activities.data_converter import data_converter
from agentcompass.cli.embedded_server import EmbeddedServer
from agentcompass.contracts.activities import DISCARD_REQUEST, PREPARE_REQUEST
from agentcompass.contracts.launch import LaunchRuntime
from agentcompass.contracts.workflows import NAMESPACE, STOP_SIGNAL
from agentcompass.workflows import preparation


@pytest.mark.parametrize("dies", [True, False], ids=["dies", "full disk"])
async def test_what_it_had_reserved_is_removed(embedded_home: Path, dies: bool) -> None:
    """The server gives an activity that is to be cancelled to nobody else; the time-skipping one would."""
    state = await EmbeddedServer(embedded_home).ensure()
    client = await Client.connect(state.address, namespace=NAMESPACE, data_converter=data_converter())
    fakes, reached, gone = FakeActivities(["a"]), asyncio.Event(), asyncio.Event()

    async def die(_: Any) -> None:
        reached.set()
        await gone.wait()  # without a heartbeat, so that it hears of no cancellation either

    gate = Gate()

    async def fail(_: Any) -> None:
        reached.set()
        try:
            await gate()
        except asyncio.CancelledError:
            raise OSError("no space left on device") from None

    fakes.on(PREPARE_REQUEST, die if dies else fail)
    async with stage(client, fakes) as scene:
        handle = await scene.request(runtime=LaunchRuntime(heartbeat_timeout_seconds=2))
        await reached.wait()
        await handle.signal(STOP_SIGNAL, args=["cancelled", "never mind"])
        result = await handle.result()
        gone.set()
    assert (result.status, result.run_dir) == ("cancelled", "")
    assert len(fakes.inputs(PREPARE_REQUEST)) == 1
    assert fakes.inputs(DISCARD_REQUEST) == fakes.inputs(PREPARE_REQUEST)


async def test_a_disk_that_stays_away_holds_up_no_request_that_was_stopped(
    embedded_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "_DISCARDING", RetryPolicy(maximum_attempts=2))
    state = await EmbeddedServer(embedded_home).ensure()
    client = await Client.connect(state.address, namespace=NAMESPACE, data_converter=data_converter())
    fakes, reached, gone = FakeActivities(["a"]), asyncio.Event(), asyncio.Event()

    async def die(_: Any) -> None:
        reached.set()
        await gone.wait()

    def unreachable(_: Any) -> None:
        raise OSError("Stale file handle")

    fakes.on(PREPARE_REQUEST, die)
    fakes.on(DISCARD_REQUEST, unreachable)
    async with stage(client, fakes) as scene:
        handle = await scene.request(runtime=LaunchRuntime(heartbeat_timeout_seconds=2))
        await reached.wait()
        await handle.signal(STOP_SIGNAL, args=["cancelled", "never mind"])
        result = await handle.result()
        gone.set()
    assert (result.status, result.run_dir) == ("cancelled", "")
    assert result.error.startswith("never mind; what its worker may have reserved was not removed")
    assert "Stale file handle" in result.error
    assert len(fakes.inputs(DISCARD_REQUEST)) == 2
