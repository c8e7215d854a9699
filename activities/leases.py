"""Renewing the time to live of the environments that a phase uses, for as long as it runs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

from temporalio import activity

from ..contracts.environment import Environment, EnvironmentHandle
from ..contracts.environment_labels import LEASE_SECONDS
from .classification import describe
from .hook_calls import HOOK_FAILURES, call_hook, raise_if_cancelled
from .store.ledger import EnvironmentLedger

FIRST_RENEWAL_SECONDS = 30.0
"""Shorter phases renew nothing: the lease is as long as a day."""
RENEWAL_SECONDS = 600.0
_RENEWALS_IN_A_LEASE = 4


class Leases:
    """What one phase holds. A failed renewal is tried again, and never fails the phase."""

    def __init__(self, ledger: EnvironmentLedger, log: Any) -> None:
        self._ledger = ledger
        self._log = log
        self._held: dict[str, tuple[Environment[Any], EnvironmentHandle]] = {}
        self._more = asyncio.Event()

    def hold(self, environment: Environment[Any], handle: EnvironmentHandle) -> None:
        """The phase uses this environment from now on."""
        self._held[handle.id] = (environment, handle)
        self._more.set()

    @contextlib.asynccontextmanager
    async def renewing(
        self, first: float = FIRST_RENEWAL_SECONDS, then: float = RENEWAL_SECONDS
    ) -> AsyncIterator[None]:
        """Renew after ``first`` seconds and every ``then`` seconds; local activities are over before that.

        Sooner and oftener what has a short lease: at once, and four times in its course.
        """
        if activity.info().is_local:
            yield
            return
        task = asyncio.create_task(self._renew_again_and_again(first, then))
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _renew_again_and_again(self, first: float, then: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + first
        while True:
            # Not wait_for, which loses a cancellation that comes together with the event (Python 3.11).
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(due):
                    await self._more.wait()
            self._more.clear()
            if loop.time() < due and not self._short():
                continue
            for environment, handle in list(self._held.values()):
                await self._renew(environment, handle)
            due = loop.time() + min([then, *(seconds / _RENEWALS_IN_A_LEASE for seconds in self._short())])

    def _short(self) -> list[float]:
        """The leases that are so short that they do not last from one renewal to the next."""
        leases = [environment.lease_seconds for environment, _ in self._held.values()]
        return [seconds for seconds in leases if seconds is not None and seconds < LEASE_SECONDS]

    async def _renew(self, environment: Environment[Any], handle: EnvironmentHandle) -> None:
        self._ledger.note_life(handle.id)
        try:
            await call_hook(
                environment.renew, handle, time.time() + (environment.lease_seconds or LEASE_SECONDS)
            )
        except HOOK_FAILURES as error:  # extension code; what is wrong with the sandbox the phase finds out
            raise_if_cancelled(error)
            self._log.warning("the time to live of %s was not renewed: %s", handle.id, describe(error))
