"""The provider ``daytona``."""

from __future__ import annotations

import asyncio
import functools
import json
import os
from typing import ClassVar

from pydantic import BaseModel

from ....contracts.environment import (
    Environment,
    EnvironmentCapabilities,
    EnvironmentHandle,
    EnvironmentLostError,
    EnvironmentRecord,
    OpenRequest,
)
from ....contracts.errors import UsageError
from ....contracts.network import NetworkMode, NetworkPolicy
from ....contracts.request import EnvironmentSpec
from ..remote import Shell, prepared
from ..shared.cancellation import finish
from ..shared.own_thread import in_own_thread
from .api import DaytonaApi, DaytonaError, api_at
from .creation import Creation, facts_of, living, minutes_until, origin_of
from .network import network_settings
from .params import DaytonaParams
from .records import ID_LABEL, LABEL_PREFIX, PROVIDER, WORKDIR_LABEL, Facts, is_kept, sandbox_name
from .removal import remove
from .session import DaytonaSession
from .toolbox import Toolbox

_PAGE = 100
_REMOVAL_SECONDS = 300.0


class Daytona(Environment[DaytonaParams]):
    """A sandbox at Daytona for each task; reached from any worker."""

    id = PROVIDER
    description = "A sandbox at Daytona for each task"
    Params: ClassVar[type[BaseModel]] = DaytonaParams
    capabilities = EnvironmentCapabilities(
        network_modes=list(NetworkMode),
        switches_network=True,
        resources=["cpu", "memory_mb", "storage_mb", "gpu"],
        isolated=True,
        host_bound=False,
    )

    async def preflight(self, spec: EnvironmentSpec) -> None:
        """Raise ``UsageError`` for what cannot be, ``ServiceUnreachableError`` when Daytona does not answer."""
        origin_of(spec, self.params)
        for policy in (spec.network_policy, spec.run_network_policy, spec.verifier_network_policy):
            network_settings(policy or NetworkPolicy())
        api = self._api

        def look() -> None:
            try:
                api.call(lambda timeout: api.sandboxes.list_sandboxes(limit=1, _request_timeout=timeout))
            except DaytonaError as error:
                raise UsageError(f"Daytona at {api.url} refuses to list sandboxes: {error}") from error

        await in_own_thread(look, "daytona-preflight")

    async def open(self, request: OpenRequest) -> DaytonaSession:
        """Make the sandbox of ``request.environment_id``, or take up the one that is there.

        Cancelled or failed half-way, it leaves nothing that ``close`` does not find by the id.
        """
        creation = Creation(self._api, self.params, request)
        working = in_own_thread(creation.run, f"open-{request.environment_id}")
        try:
            facts = await asyncio.shield(working)
            session = await self._session(facts, request.env_variables)
            if creation.made is None:
                await session.set_network_policy(request.network_policy)
        except BaseException:
            creation.stop()
            await finish(self._discard(creation, working))
            raise
        return session

    async def attach(self, handle: EnvironmentHandle) -> DaytonaSession:
        """A session on a sandbox that was opened before. Raises ``EnvironmentLostError``."""
        _require_ours(handle)
        api, sandbox = self._api, str(handle.data.get("sandbox") or "")
        if not sandbox:
            raise EnvironmentLostError(f"environment {handle.id!r} has no sandbox")
        facts = await in_own_thread(lambda: living(api, handle.id, sandbox), f"attach-{handle.id}")
        if facts.environment_id != handle.id:
            raise ValueError(f"sandbox {sandbox} is not environment {handle.id!r}")
        return await self._session(facts, None)

    async def close(self, handle: EnvironmentHandle) -> None:
        """Delete the sandbox, found by its name and label: a handle cannot name anybody else's."""
        _require_ours(handle)
        api = self._api

        def close() -> None:
            facts = facts_of(api, sandbox_name(handle.id))
            if facts is not None and facts.environment_id == handle.id:
                remove(api, facts.sandbox, _REMOVAL_SECONDS)

        await in_own_thread(close, f"close-{handle.id}")

    async def renew(self, handle: EnvironmentHandle, expires_at: float) -> None:
        """Have Daytona delete the sandbox at that time and not before; one with a set lifetime keeps that."""
        _require_ours(handle)
        api = self._api

        def renew() -> None:
            facts = living(api, handle.id, str(handle.data.get("sandbox") or sandbox_name(handle.id)))
            if self.params.lifetime_minutes is not None or is_kept(facts.labels):
                return
            minutes = minutes_until(expires_at)
            try:
                api.call(
                    lambda timeout: api.sandboxes.set_ttl(facts.sandbox, minutes, _request_timeout=timeout)
                )
            except DaytonaError as error:
                raise OSError(f"Daytona sets no time to live: {error} ({error.status})") from error

        await in_own_thread(renew, f"renew-{handle.id}")

    async def list_environments(self, labels: dict[str, str] | None = None) -> list[EnvironmentRecord]:
        """Sandboxes of this provider that carry all of ``labels``, the oldest first."""
        wanted = {f"{LABEL_PREFIX}{name}": value for name, value in (labels or {}).items()}
        found = await in_own_thread(lambda: self._listed(wanted), "daytona-list")
        records = [facts.record() for facts in found]
        return sorted(records, key=lambda record: record.created_at or 0.0)

    @functools.cached_property
    def _api(self) -> DaytonaApi:
        name = self.params.api_key_variable
        key = os.environ.get(name, "")
        if not key:
            raise UsageError(f"the worker needs the key for Daytona in the variable {name}")
        params = self.params
        return api_at(params.resolved_url(), key, params.organization_id, params.request_timeout_seconds)

    async def _session(self, facts: Facts, variables: dict[str, str] | None) -> DaytonaSession:
        shell = Shell(Toolbox(self._api, facts))
        workdir = facts.labels.get(WORKDIR_LABEL, "")
        ready = await in_own_thread(
            lambda: prepared(shell, workdir, variables), f"prepare-{facts.environment_id}"
        )
        return DaytonaSession(facts, self._api, shell, self.params, ready)

    async def _discard(self, creation: Creation, working: asyncio.Future[Facts]) -> None:
        """After a failed opening: what it made itself goes, what it found stays."""
        await asyncio.wait({working})
        working.exception()  # seen: after a cancellation nobody else asks for it
        made = creation.made
        if made is not None:
            await in_own_thread(lambda: remove(self._api, made, _REMOVAL_SECONDS), "daytona-discard")

    def _listed(self, labels: dict[str, str]) -> list[Facts]:
        found: dict[str, Facts] = {}
        cursor: str | None = None
        while True:
            page, cursor = self._page(labels, cursor)
            for facts in page:
                ours = ID_LABEL in facts.labels and labels.items() <= facts.labels.items()
                if ours and facts.state not in ("destroyed", "destroying"):
                    found[facts.sandbox] = facts
            if not cursor:
                return list(found.values())

    def _page(self, labels: dict[str, str], cursor: str | None) -> tuple[list[Facts], str | None]:
        api = self._api

        def look(timeout: float) -> tuple[list[Facts], str | None]:
            page = api.sandboxes.list_sandboxes(
                labels=json.dumps(labels) if labels else None,
                limit=_PAGE,
                cursor=cursor,
                _request_timeout=timeout,
            )
            return [Facts.of(item) for item in page.items], page.next_cursor

        try:
            return api.call(look)
        except DaytonaError as error:
            raise OSError(f"Daytona does not list sandboxes: {error} ({error.status})") from error


def _require_ours(handle: EnvironmentHandle) -> None:
    if handle.provider != PROVIDER:
        raise ValueError(f"a handle of {handle.provider!r} was given to {PROVIDER}")
