"""Find environments: what providers list, together with what the ledgers of runs know.

A provider is asked as it was used: with the parameters of each run that has open environments, and
without any. A ledger also knows environments of providers that cannot list theirs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from ...contracts.environment import Environment, EnvironmentHandle, EnvironmentRecord
from ...contracts.environment_labels import LEASE_SECONDS, EnvironmentOwner
from ...contracts.request import EnvironmentSpec
from ...plugins.registry import ComponentKind, Registry
from ..classification import describe
from ..hook_calls import HOOK_FAILURES, call_hook, raise_if_cancelled
from ..redaction import REDACTOR
from ..services import build_environment
from ..store.ledger import EnvironmentLedger, LedgerEntry
from ..store.open_runs import OpenRuns

ALWAYS_ASKED = ("host_process",)
"""Asking costs nothing, and it finds what a run left whose directory was removed."""
LIST_SECONDS = 30.0


@dataclass(frozen=True)
class Sighting:
    """An environment, and what removing it takes."""

    handle: EnvironmentHandle
    provider: str
    """The id under which the provider is registered."""
    params: Mapping[str, JsonValue]
    labels: Mapping[str, str]
    opened_at: float | None = None
    expires_at: float | None = None
    """End of the lease, by the latest sign of life that anybody noted."""
    renewed: bool = False
    """True when signs of life of its attempt would be seen, so that their absence means something."""
    host: str = ""
    """The only machine that can reach it."""
    run_dir: Path | None = None
    """The run whose ledger has it."""
    exists: bool | None = None
    """Whether the provider knows it; ``None`` when that cannot be asked."""
    opened: bool = True
    """False when it was still being opened, as far as its ledger said before the provider was asked."""
    error: str = ""
    """Why it could not be removed the last time."""

    @property
    def id(self) -> str:
        """The environment's id."""
        return self.handle.id

    @property
    def owner(self) -> EnvironmentOwner | None:
        """The attempt that it was opened for."""
        return EnvironmentOwner.of(self.labels)

    def expired(self, now: float) -> bool:
        """Whether its lease has run out."""
        return self.expires_at is not None and self.expires_at < now


@dataclass
class Found:
    """What was found, the oldest first, and the providers that could not be asked."""

    sightings: list[Sighting] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


Source = tuple[str, str]
"""A provider and its parameters as JSON."""


async def find_environments(
    registry: Registry, home: Path, host: str, providers: Iterable[str] = (), *, placeless_only: bool = False
) -> Found:
    """Every environment that this machine can know of, of ``providers`` and of those that runs here used."""
    entries = [
        (entry, run_dir)
        for entry, run_dir in await asyncio.to_thread(_ledger_entries, home)
        if not (placeless_only and entry.host)
    ]
    installed = registry.ids(ComponentKind.ENVIRONMENT)
    sources: dict[Source, None] = {
        (name, "{}"): None for name in (*ALWAYS_ASKED, *providers) if name in installed
    }
    for entry, _ in entries:
        if entry.host in ("", host):
            sources.setdefault(_source(entry))
    found = Found()
    listed: dict[Source, dict[str, EnvironmentRecord]] = {}
    by_id: dict[str, Sighting] = {}
    for source in sources:
        name, values = source[0], json.loads(source[1])
        try:
            environment = build_environment(EnvironmentSpec(id=name, params=values), registry)
            if placeless_only and environment.capabilities.host_bound:
                continue
            records = await _list(environment)
        except NotImplementedError:
            continue  # what its runs have in their ledgers is all there is to know
        except HOOK_FAILURES as error:  # one provider that cannot be asked must not hide the others
            raise_if_cancelled(error)
            found.problems.append(f"{name}: {REDACTOR.text(describe(error))}")
            continue
        listed[source] = {record.handle.id: record for record in records}
        bound = host if environment.capabilities.host_bound else ""
        for record in records:
            by_id.setdefault(record.handle.id, _of_record(record, name, values, bound))
    for entry, run_dir in entries:
        known = listed.get(_source(entry))
        listing = None if known is None else known.get(entry.environment_id)
        exists = None if known is None else listing is not None
        by_id[entry.environment_id] = _of_entry(entry, run_dir, listing, exists)
    found.sightings = sorted(by_id.values(), key=lambda item: item.opened_at or 0.0)
    return found


def _ledger_entries(home: Path) -> list[tuple[LedgerEntry, Path]]:
    return [
        (entry, run_dir) for run_dir in OpenRuns(home).all() for entry in EnvironmentLedger(run_dir).entries()
    ]


def _source(entry: LedgerEntry) -> Source:
    return entry.provider, json.dumps(entry.params, sort_keys=True)


async def _list(environment: Environment[Any]) -> list[EnvironmentRecord]:
    async with asyncio.timeout(LIST_SECONDS):
        return await call_hook(environment.list_environments)


def _of_record(
    record: EnvironmentRecord, provider: str, params: Mapping[str, JsonValue], host: str
) -> Sighting:
    owner = EnvironmentOwner.of(record.labels)
    return Sighting(
        handle=record.handle,
        provider=provider,
        params=params,
        labels=record.labels,
        opened_at=record.created_at,
        expires_at=_latest(record.expires_at, owner.expiry if owner else None),
        renewed=record.expires_at is not None,
        host=host,
        exists=True,
    )


def _of_entry(
    entry: LedgerEntry, run_dir: Path, record: EnvironmentRecord | None, exists: bool | None
) -> Sighting:
    owner = EnvironmentOwner.of(entry.labels)
    return Sighting(
        handle=record.handle if record else entry.known_handle,
        provider=entry.provider,
        params=entry.params,
        labels=entry.labels,
        opened_at=entry.opened_at,
        expires_at=_latest(
            record.expires_at if record else None,
            owner.expiry if owner else None,
            entry.renewed_at + LEASE_SECONDS,
        ),
        renewed=True,
        host=entry.host,
        run_dir=run_dir,
        exists=exists,
        opened=entry.handle is not None,
        error=entry.error,
    )


def _latest(*times: float | None) -> float | None:
    return max((time for time in times if time), default=None)
