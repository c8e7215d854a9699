"""The provider ``host_process``."""

from __future__ import annotations

import asyncio
import logging
import os
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ValidationError

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
from .command_line import SHELL
from .directory import PROVIDER, EnvironmentDirectory, Ledger
from .execution import end_abandoned
from .leftovers import end_everything
from .params import HostProcessParams
from .process_space import why_unavailable
from .session import LOOPBACK, HostProcessSession

_log = logging.getLogger(__name__)
_INSTEAD = "use an environment that isolates, such as docker"


class HostProcess(Environment[HostProcessParams]):
    """Runs trusted work directly on the worker's machine; protects it from nothing."""

    id = PROVIDER
    description = "Commands on the worker's own machine, for trusted work; isolates nothing"
    Params: ClassVar[type[BaseModel]] = HostProcessParams
    quick_hooks = frozenset({"open", "close", "attach"})
    capabilities = EnvironmentCapabilities(
        network_modes=[NetworkMode.PUBLIC],
        resources=[],
        isolated=False,
        host_bound=True,
        worker_host=LOOPBACK,
    )

    async def preflight(self, spec: EnvironmentSpec) -> None:
        """Raise ``UsageError`` for what this machine cannot do or this provider cannot enforce."""
        _require_enforceable(spec)
        if not os.access(SHELL, os.X_OK):
            raise UsageError(f"host_process needs {SHELL} on the worker's machine")
        if self.params.private_processes == "always":
            problem = await asyncio.to_thread(why_unavailable)
            if problem:
                raise UsageError(f"private_processes is 'always', and this machine gives none: {problem}")
        root = self._root
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"host_process cannot make its folder {root}: {error.strerror}") from error
        if not os.access(root, os.W_OK | os.X_OK):
            raise UsageError(f"host_process cannot write to its folder {root}")

    async def open(self, request: OpenRequest) -> HostProcessSession:
        """Make the directory of ``request.environment_id``, or take up the one that is there."""
        _require_public("network_policy", request.network_policy)
        directory = EnvironmentDirectory(self._root, request.environment_id)
        if directory.half_removed:
            await asyncio.to_thread(self._remove, directory)
        found = directory.alive
        directory.create(request.labels, request.env_variables)
        if found:
            await asyncio.to_thread(end_abandoned, directory, self.params.grace_seconds)
        return HostProcessSession(directory, self.params, request.env_variables)

    async def attach(self, handle: EnvironmentHandle) -> HostProcessSession:
        """A session on an environment that was opened before. Raises ``EnvironmentLostError``."""
        directory = EnvironmentDirectory.of(self._root, handle)
        if not directory.alive:
            raise EnvironmentLostError(f"environment {handle.id!r} is gone from {directory.path}")
        if not directory.untouched:
            await asyncio.to_thread(end_abandoned, directory, self.params.grace_seconds)
        return HostProcessSession(directory, self.params, directory.variables())

    async def close(self, handle: EnvironmentHandle) -> None:
        """End everything and remove the directory.

        Raises ``ValueError`` for a handle that names another directory than its id has below
        the root; nothing is removed then.
        """
        directory = EnvironmentDirectory.of(self._root, handle)
        await asyncio.to_thread(self._remove, directory)

    async def renew(self, handle: EnvironmentHandle, expires_at: float) -> None:
        """Nothing ends processes of this machine by itself, so the time is kept for whoever cleans up."""
        directory = EnvironmentDirectory.of(self._root, handle)
        try:
            if directory.alive:
                directory.renew(expires_at)
                return
        except FileNotFoundError:
            pass  # removed in this moment
        raise EnvironmentLostError(f"environment {handle.id!r} is gone from {directory.path}")

    async def list_environments(self, labels: dict[str, str] | None = None) -> list[EnvironmentRecord]:
        """Environments below the root that carry all of ``labels``, the oldest first."""
        records = await asyncio.to_thread(self._records)
        wanted = (labels or {}).items()
        return sorted(
            (record for record in records if wanted <= record.labels.items()),
            key=lambda record: record.created_at or 0.0,
        )

    @cached_property
    def _root(self) -> Path:
        return self.params.resolved_root()

    def _remove(self, directory: EnvironmentDirectory) -> None:
        if directory.path.is_dir():
            # A look at every process of the machine costs ten times the rest of a removal.
            if not directory.untouched:
                end_everything(directory, self.params.grace_seconds)
            directory.remove()

    def _records(self) -> list[EnvironmentRecord]:
        records = []
        for path in self._root.glob("*/ledger.json"):
            try:
                ledger = Ledger.read(path)
            except (ValidationError, OSError) as error:
                # One unreadable ledger must not hide the other environments.
                _log.warning("%s cannot be read: %s", path, error)
                continue
            if ledger is None:
                continue  # removed meanwhile
            directory = EnvironmentDirectory(self._root, ledger.environment_id)
            records.append(
                EnvironmentRecord(
                    handle=directory.handle,
                    labels=ledger.labels,
                    created_at=ledger.created_at,
                    expires_at=directory.expires_at(),
                )
            )
        return records


def _require_enforceable(spec: EnvironmentSpec) -> None:
    for name in ("network_policy", "run_network_policy", "verifier_network_policy"):
        policy: NetworkPolicy | None = getattr(spec, name)
        if policy is not None:
            _require_public(name, policy)
    resources = sorted(spec.resources.model_dump(exclude_none=True))
    if resources:
        raise UsageError(f"host_process cannot limit or promise {', '.join(resources)}; {_INSTEAD}")
    for name in ("image", "workdir"):
        if getattr(spec.setup, name) is not None:
            raise UsageError(
                f"host_process makes a work directory of its own and has no setup.{name}; {_INSTEAD}"
            )


def _require_public(name: str, policy: NetworkPolicy) -> None:
    if policy.network_mode is not NetworkMode.PUBLIC:
        raise UsageError(
            f"host_process cannot enforce {name} '{policy.network_mode}': commands run on the worker's own "
            f"machine with its network; {_INSTEAD}"
        )
