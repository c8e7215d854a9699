"""Environments in use are renewed, whatever becomes of a renewal."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any, cast

import pytest
from temporalio.testing import ActivityEnvironment

from agentcompass.activities.leases import Leases
from agentcompass.activities.store.ledger import EnvironmentLedger
from agentcompass.contracts import Environment, EnvironmentHandle, EnvironmentLostError

HANDLE = EnvironmentHandle(provider="box", id="ac-one-a1-e1")


class Box:
    """A provider that notes how it is renewed; the first time it fails."""

    lease_seconds: float | None = None

    def __init__(self) -> None:
        self.renewals: list[float] = []
        self.twice = asyncio.Event()

    async def renew(self, handle: EnvironmentHandle, expires_at: float) -> None:
        assert handle == HANDLE
        self.renewals.append(expires_at)
        if len(self.renewals) == 1:
            raise EnvironmentLostError("gone")
        self.twice.set()


async def test_an_environment_is_renewed_by_a_day_again_and_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    box = Box()
    leases = Leases(EnvironmentLedger(tmp_path), logging.getLogger("test"))

    async def phase() -> None:
        leases.hold(cast("Environment[Any]", box), HANDLE)
        async with leases.renewing(first=0, then=0.01):
            await box.twice.wait()

    before = time.time()
    await ActivityEnvironment().run(phase)
    assert all(before + 23 * 3600 < expires_at < time.time() + 25 * 3600 for expires_at in box.renewals)
    assert "was not renewed: EnvironmentLostError: gone" in caplog.text


async def test_a_short_lease_is_renewed_as_soon_as_it_is_held_and_by_its_own_length(tmp_path: Path) -> None:
    box = Box()
    box.lease_seconds = 0.1
    leases = Leases(EnvironmentLedger(tmp_path), logging.getLogger("test"))

    async def phase() -> None:
        async with leases.renewing(first=3600, then=3600):
            leases.hold(cast("Environment[Any]", box), HANDLE)
            await box.twice.wait()

    before = time.time()
    await ActivityEnvironment().run(phase)
    assert all(before < expires_at < time.time() + 1 for expires_at in box.renewals)


async def test_renewing_ends_with_the_phase(tmp_path: Path) -> None:
    box = Box()
    leases = Leases(EnvironmentLedger(tmp_path), logging.getLogger("test"))

    async def phase() -> None:
        async with leases.renewing(first=0, then=0):
            leases.hold(cast("Environment[Any]", box), HANDLE)
            await box.twice.wait()
        renewed = len(box.renewals)
        for _ in range(5):
            await asyncio.sleep(0)
        assert len(box.renewals) == renewed

    await ActivityEnvironment().run(phase)


async def test_a_phase_that_ends_as_soon_as_it_holds_something_ends(tmp_path: Path) -> None:
    """The cancellation of its renewals comes together with the news."""
    leases = Leases(EnvironmentLedger(tmp_path), logging.getLogger("test"))

    async def phase() -> None:
        async with leases.renewing(first=3600, then=3600):
            await asyncio.sleep(0.01)
            leases.hold(cast("Environment[Any]", Box()), HANDLE)

    async with asyncio.timeout(60):
        await ActivityEnvironment().run(phase)
