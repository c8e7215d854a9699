"""Which runs may have open environments: an index in the AgentCompass home of this machine.

A run directory can be anywhere. Whoever looks for environments that were left behind begins here.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from ...contracts.base import Contract
from ...contracts.errors import RecordError
from .files import find_model, write_json_atomic
from .ledger import EnvironmentLedger

_log = logging.getLogger(__name__)


class OpenRun(Contract):
    """A line of the index."""

    run_dir: str


class OpenRuns:
    """The index of one home. What cannot be written there costs the index only, never a run."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "environments" / "runs"

    def note(self, run_dir: str) -> None:
        """This run is about to open an environment. Call it after the run's ledger has it."""
        path = self._path(run_dir)
        if path.exists():
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_json_atomic(path, OpenRun(run_dir=run_dir), durable=False)
        except OSError as error:
            _log.warning("%s cannot be noted for the cleaning up of environments: %s", run_dir, error)

    def all(self) -> list[Path]:
        """Run directories that may have open environments; those without are dropped from the index."""
        found = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                known = find_model(path, OpenRun)
            except RecordError as error:
                _log.warning("%s", error)
                continue
            if known is None:
                continue
            run_dir = Path(known.run_dir)
            if not EnvironmentLedger(run_dir).empty():
                found.append(run_dir)
                continue
            path.unlink(missing_ok=True)
            # It may have opened one between our look and the removal.
            if not EnvironmentLedger(run_dir).empty():
                self.note(known.run_dir)
                found.append(run_dir)
        return found

    def _path(self, run_dir: str) -> Path:
        return self._folder / f"{hashlib.sha256(run_dir.encode()).hexdigest()[:24]}.json"
