"""The reaper: looks at all environments and removes those that nobody will need."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable
from pathlib import Path

from temporalio.service import RPCError

from ...contracts.upkeep import SweepReport
from ...plugins.registry import Registry
from ..services import Services
from ..store.files import try_file_lock
from ..store.ledger import EnvironmentLedger
from .finding import Sighting, find_environments
from .ownership import EnvironmentState, Owners
from .release import release

SECOND_LOOK_SECONDS = 120.0
"""Between finding that a lease has run out and acting on it. A machine that wakes up after a weekend, or a
server that was started a moment ago, looks dead for as long as it takes its workers to come back."""

_log = logging.getLogger("agentcompass.reaper")


class Reaper:
    """One for each worker process; it remembers what it has found to be expired."""

    def __init__(
        self,
        services: Services,
        registry: Registry,
        home: Path,
        host: str,
        *,
        second_look_seconds: float = SECOND_LOOK_SECONDS,
    ) -> None:
        self._services = services
        self._registry = registry
        self._home = home
        self._host = host
        self._second_look_seconds = second_look_seconds
        self._expired_since: dict[str, float] = {}

    async def sweep(
        self, providers: Iterable[str] = (), *, launch: str = "", placeless_only: bool = False
    ) -> SweepReport:
        """Look at every environment, or those of one launch, and remove what nobody needs.

        Does nothing when another process of this machine is at it. Raises ``RPCError`` when Temporal
        cannot be asked; what was not asked about stays.
        """
        if launch:
            return await self._sweep(providers, launch, placeless_only)  # twice at once does no harm
        lock = self._home / "environments" / ("placeless.lock" if placeless_only else "reaper.lock")
        with try_file_lock(lock) as mine:
            return await self._sweep(providers, launch, placeless_only) if mine else SweepReport()

    async def _sweep(self, providers: Iterable[str], launch: str, placeless_only: bool) -> SweepReport:
        found = await find_environments(
            self._registry, self._home, self._host, providers, placeless_only=placeless_only
        )
        report = SweepReport(problems=found.problems)
        owners = Owners(self._services.client, await self._services.namespace())
        for sighting in found.sightings:
            if not launch or sighting.labels.get("launch") == launch:
                await self._look_at(sighting, owners, report)
        return report

    async def _look_at(self, sighting: Sighting, owners: Owners, report: SweepReport) -> None:
        state = await owners.state_of(sighting, time.time())
        if state is not EnvironmentState.EXPIRED:
            self._expired_since.pop(sighting.id, None)
        if sighting.host not in ("", self._host):
            return  # the workers of that machine look after it
        match state:
            case EnvironmentState.CLOSED:
                await self._release(sighting, "its attempt is over", report)
            case EnvironmentState.KEPT if sighting.exists is False and not _opened_meanwhile(sighting):
                await self._release(sighting, "somebody removed it", report)
            case EnvironmentState.EXPIRED:
                # Not the wall clock, which jumps when a machine wakes up.
                now = time.monotonic()
                since = self._expired_since.get(sighting.id)
                self._expired_since.setdefault(sighting.id, now)
                if since is not None and now - since >= self._second_look_seconds:
                    await self._release(sighting, "its lease has run out", report)
                else:
                    report.left += 1
            case _:
                report.left += 1

    async def _release(self, sighting: Sighting, reason: str, report: SweepReport) -> None:
        if sighting.run_dir and not EnvironmentLedger(sighting.run_dir).has(sighting.id):
            return  # its attempt closed it and ended while we asked
        problem = await release(sighting, self._registry, self._host)
        if problem:
            _log.warning("environment %s of %s was not removed: %s", sighting.id, sighting.provider, problem)
            report.failed.append(f"{sighting.id}: {problem}")
            return
        self._expired_since.pop(sighting.id, None)
        if sighting.exists is not False:
            _log.info("removed environment %s of %s: %s", sighting.id, sighting.provider, reason)
            report.released.append(sighting.id)


def _opened_meanwhile(sighting: Sighting) -> bool:
    """Whether the provider was asked too early: it was opened, and its attempt ended, after that."""
    if sighting.opened or sighting.run_dir is None:
        return False
    entry = EnvironmentLedger(sighting.run_dir).find(sighting.id)
    return entry is not None and entry.handle is not None


class ReaperLoop:
    """Sweeps in the background of a worker process: at its start, now and then, and once more at its end."""

    def __init__(self, reaper: Reaper, *, every_seconds: float) -> None:
        self._reaper = reaper
        self._every_seconds = every_seconds
        self._problems: set[str] = set()

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await self.once()
            await asyncio.sleep(self._every_seconds)

    async def once(self, launch: str = "") -> None:
        """One sweep. What goes wrong is logged: cleaning up must not end a worker."""
        try:
            report = await self._reaper.sweep(launch=launch)
        except (RPCError, OSError) as error:
            _log.warning("environments were not looked after: %s", error)
            return
        except Exception:  # a bug of ours: it must not end the worker, and is told whenever it happens
            _log.exception("environments were not looked after")
            return
        for problem in report.problems:
            if problem not in self._problems:  # once, not every few minutes
                self._problems.add(problem)
                _log.warning("environments cannot be listed: %s", problem)
