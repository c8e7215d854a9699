"""The environments of a run that are open, or about to be: ``.state/environments/<id>.json``.

An entry is written before its environment is made and removed after it was removed, so whatever dies
in between, somebody can find it. Its time stamp is the last sign of life of the attempt.
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path
from typing import Literal

from pydantic import Field, JsonValue

from ...contracts.base import Contract
from ...contracts.environment import EnvironmentHandle
from ...contracts.errors import RecordError
from .files import TEMPORARY_PREFIX, find_model, read_model, write_json_atomic
from .layout import task_file_stem
from .reservation import STATE_DIR

_ERROR_CHARS = 500
_log = logging.getLogger(__name__)


class LedgerEntry(Contract):
    """One environment: everything that removing it takes, in any process."""

    schema_version: Literal["agentcompass.open_environment.v1"] = "agentcompass.open_environment.v1"
    environment_id: str
    provider: str
    params: dict[str, JsonValue] = Field(default_factory=dict)
    """Of the provider, with references where they are secret."""
    labels: dict[str, str] = Field(default_factory=dict)
    host: str = ""
    """The only machine that can reach it; empty when any can."""
    opened_at: float
    """When the intent was written down, in Unix seconds."""
    handle: EnvironmentHandle | None = None
    """``None`` until it is open: then its id is all that is known of it."""
    failed_removals: int = 0
    error: str = ""
    """Why the last removal failed."""
    renewed_at: float = Field(default=0.0, exclude=True)
    """Last sign of life of the attempt; the time stamp of the file."""

    @property
    def known_handle(self) -> EnvironmentHandle:
        """The handle, or one made from the id for what may have been left half made."""
        return self.handle or EnvironmentHandle(provider=self.provider, id=self.environment_id)


class EnvironmentLedger:
    """The entries of one run. Safe to use from several processes: an environment has one user."""

    def __init__(self, run_dir: Path) -> None:
        self._folder = run_dir / STATE_DIR / "environments"

    def add(self, entry: LedgerEntry) -> None:
        """Write the intent down; for what outlives this machine it survives a power cut, too."""
        write_json_atomic(self._path(entry.environment_id), entry, durable=not entry.host)

    def note_handle(self, entry: LedgerEntry, handle: EnvironmentHandle) -> None:
        """What ``entry`` announced is open, unless somebody has removed it meanwhile."""
        if self.has(entry.environment_id):
            opened = entry.model_copy(update={"handle": handle})
            write_json_atomic(self._path(entry.environment_id), opened, durable=False)

    def note_failed_removal(self, environment_id: str, error: str) -> None:
        """It could not be removed; whoever cleans up tries again."""
        found = find_model(self._path(environment_id), LedgerEntry)
        if found is not None:
            self._change(
                environment_id, failed_removals=found.failed_removals + 1, error=error[:_ERROR_CHARS]
            )

    def note_life(self, environment_id: str) -> None:
        """Its attempt is at work."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(self._path(environment_id))

    def remove(self, environment_id: str) -> None:
        """It is gone. Nothing happens when the ledger does not know it."""
        self._path(environment_id).unlink(missing_ok=True)

    def find(self, environment_id: str) -> LedgerEntry | None:
        """Its entry, ``None`` when the ledger does not know it. Raises ``RecordError`` for a broken one."""
        return find_model(self._path(environment_id), LedgerEntry)

    def has(self, environment_id: str) -> bool:
        """Whether it was not removed yet."""
        return self._path(environment_id).exists()

    def entries(self) -> list[LedgerEntry]:
        """All entries, the oldest first; what cannot be read is logged and left out."""
        found = []
        for path in self._files():
            try:
                renewed_at = path.stat().st_mtime
                entry = read_model(path, LedgerEntry)
            except (OSError, RecordError) as error:
                if path.exists():
                    _log.warning("an environment of a run cannot be told: %s", error)
                continue
            found.append(entry.model_copy(update={"renewed_at": renewed_at}))
        return sorted(found, key=lambda entry: entry.opened_at)

    def empty(self) -> bool:
        """True when the run has no environment."""
        return not self._files()

    def _files(self) -> list[Path]:
        return [path for path in self._folder.glob("*.json") if not path.name.startswith(TEMPORARY_PREFIX)]

    def _change(self, environment_id: str, **changes: object) -> None:
        path = self._path(environment_id)
        found = find_model(path, LedgerEntry)
        if found is None:
            return  # removed meanwhile, by whoever cleaned up behind a dead worker
        write_json_atomic(path, found.model_copy(update=changes), durable=False)

    def _path(self, environment_id: str) -> Path:
        return self._folder / f"{task_file_stem(environment_id)}.json"
