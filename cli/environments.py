"""The environments that exist, for ``agentcompass env``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..activities.host import home_folder, host_name
from ..activities.namespace import namespace_identity
from ..activities.reap import used_providers
from ..activities.reaper import EnvironmentState, Owners, Sighting, find_environments, release
from ..contracts.base import Contract
from ..contracts.errors import UsageError
from ..contracts.references import is_environment_id
from ..plugins.registry import load_registry
from .launch_handle import call
from .launcher import open_connection

if TYPE_CHECKING:
    from ..plugins.registry import Registry


class ListedEnvironment(Contract):
    """One line of ``env list``."""

    id: str
    provider: str
    state: EnvironmentState
    launch: str = ""
    request: str = ""
    task: str = ""
    attempt: int | None = None
    execution: int | None = None
    age_seconds: float | None = None
    expires_in_seconds: float | None = None
    """Until the lease runs out; negative when it has."""
    host: str = ""
    """The only machine that can reach it; empty when any can."""
    run_dir: str = ""
    error: str = ""
    """Why its last removal failed."""


@dataclass
class Environments:
    """What was found, and what ``release`` needs to act on it."""

    registry: Registry
    listed: list[ListedEnvironment] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    sightings: dict[str, Sighting] = field(default_factory=dict)


@dataclass(frozen=True)
class Released:
    """What became of one environment."""

    environment: ListedEnvironment
    problem: str = ""


async def look(*, launch: str = "", provider: str = "") -> Environments:
    """Every environment that this machine can know of, or those of one launch or provider.

    Raises ``UnknownComponentError`` for a provider that is not installed.
    """
    registry = load_registry()
    if provider:
        registry.get_environment(provider)
    connection = await open_connection()
    used = {name for name in await used_providers(connection.client) if name}
    found = await find_environments(registry, home_folder(), host_name(), sorted({*used, provider} - {""}))
    looked = Environments(registry, problems=[text for text in found.problems if _matters(text, provider)])
    owners = Owners(connection.client, await namespace_identity(connection.client))
    now = time.time()
    for sighting in found.sightings:
        if (launch and sighting.labels.get("launch") != launch) or (
            provider and sighting.provider != provider
        ):
            continue
        state = await call(lambda sighting=sighting: owners.state_of(sighting, now))  # type: ignore[misc]
        if sighting.exists is False:
            continue  # it is about to be made, or gone already
        looked.sightings[sighting.id] = sighting
        looked.listed.append(_listed(sighting, state, now))
    return looked


def choose(
    found: Environments, ids: Sequence[str], *, all_closed: bool, launch: str, force: bool
) -> list[ListedEnvironment]:
    """Those to release; an id of one that is gone names none.

    Raises ``UsageError`` for what cannot be an id, and when one belongs to a live attempt and ``force`` is off.
    """
    if ids:
        for name in ids:
            if name not in found.sightings and not is_environment_id(name):
                raise UsageError(
                    f"{name!r} is no environment; `agentcompass env list` shows those there are. Nothing was removed"
                )
        chosen = [item for item in found.listed if item.id in set(ids)]
    elif all_closed:
        return [item for item in found.listed if item.state is EnvironmentState.CLOSED]
    else:
        chosen = [item for item in found.listed if item.launch == launch]
    live = [item for item in chosen if item.state is EnvironmentState.LIVE]
    if live and not force:
        more = f" and {len(live) - 1} more" if len(live) > 1 else ""
        raise UsageError(
            f"{live[0].id}{more}: used by an attempt that is not over (launch {live[0].launch}, task "
            f"{live[0].task}); end it with `agentcompass cancel {live[0].launch}`, or use --force"
        )
    return chosen


async def release_all(found: Environments, chosen: Sequence[ListedEnvironment]) -> list[Released]:
    """Remove them, one after the other."""
    host = host_name()
    return [Released(item, await release(found.sightings[item.id], found.registry, host)) for item in chosen]


def _listed(sighting: Sighting, state: EnvironmentState, now: float) -> ListedEnvironment:
    owner = sighting.owner
    return ListedEnvironment(
        id=sighting.id,
        provider=sighting.provider,
        state=state,
        launch=owner.launch if owner else "",
        request=owner.request if owner else "",
        task=owner.task if owner else "",
        attempt=owner.attempt if owner else None,
        execution=owner.execution if owner else None,
        age_seconds=None if sighting.opened_at is None else round(max(0.0, now - sighting.opened_at), 1),
        expires_in_seconds=None if sighting.expires_at is None else round(sighting.expires_at - now, 1),
        host=sighting.host,
        run_dir=str(sighting.run_dir or ""),
        error=sighting.error,
    )


def _matters(problem: str, provider: str) -> bool:
    return not provider or problem.startswith(f"{provider}:")
