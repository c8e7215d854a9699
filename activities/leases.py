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


class Leases:
    """What one phase holds. A failed renewal is tried again, and never fails the phase."""

    def __init__(self, ledger: EnvironmentLedger, log: Any) -> None:
        self._ledger = ledger
        self._log = log
        self._held: dict[str, tuple[Environment[Any], EnvironmentHandle]] = {}

    def hold(self, environment: Environment[Any], handle: EnvironmentHandle) -> None:
        """The phase uses this environment from now on."""
        self._held[handle.id] = (environment, handle)

    @contextlib.asynccontextmanager
    async def renewing(
        self, first: float = FIRST_RENEWAL_SECONDS, then: float = RENEWAL_SECONDS
    ) -> AsyncIterator[None]:
        """Renew after ``first`` seconds and every ``then`` seconds; local activities are over before that."""
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
        await asyncio.sleep(first)
        while True:
            for environment, handle in list(self._held.values()):
                await self._renew(environment, handle)
            await asyncio.sleep(then)

    async def _renew(self, environment: Environment[Any], handle: EnvironmentHandle) -> None:
        self._ledger.note_life(handle.id)
        try:
            await call_hook(environment.renew, handle, time.time() + LEASE_SECONDS)
        except HOOK_FAILURES as error:  # extension code; what is wrong with the sandbox the phase finds out
            raise_if_cancelled(error)
            self._log.warning("the time to live of %s was not renewed: %s", handle.id, describe(error))
