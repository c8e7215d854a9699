"""The run of a schedule beside the one before it: what is different, and whether that fails the launch."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..contracts.errors import AgentCompassError, RecordError
from ..contracts.records import RunStatus
from ..contracts.request import ScheduledRun
from .metrics.comparison import compare_runs
from .metrics.comparison_markdown import comparison_line
from .store import RunStore

COMPARED: frozenset[RunStatus] = frozenset({"completed", "failed"})
"""How a run has to end to be compared: one that was ended early has numbers for some tasks only."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Standing:
    """How a run stands against the one before it; both empty for a run that no schedule started."""

    comparison: str = ""
    """One line for people."""
    regression: str = ""
    """Why the launch fails; empty when it does not, or when its schedule does not ask for that."""


def stand_against_previous(store: RunStore, status: RunStatus) -> Standing:
    """Compare a run, whose metrics.json is written, with the one before it, and write comparison.json.

    What cannot be compared does not pass where the schedule demands that a run is not worse; the first run
    of a schedule does.
    """
    scheduled = store.request().metadata.scheduled
    if scheduled is None or status not in COMPARED:
        return Standing()
    previous = find_previous(store.run_dir, scheduled, store.request().benchmark.id)
    if previous is None:
        return Standing(f"no earlier valid run of schedule {scheduled.schedule!r} to compare with")
    try:
        found = compare_runs(previous, store.run_dir)
    except AgentCompassError as error:
        text = f"not compared with run {previous.name}: {error}"
        _log.warning("%s", text)
        return Standing(text, text if scheduled.fail_on_regression else "")
    store.files.save_comparison(found)
    line = comparison_line(found)
    _log.info("compared with the previous run: %s", line)
    if not (found.regressed and scheduled.fail_on_regression):
        return Standing(line)
    return Standing(line, f"regression against run {found.old.run_id}: {'; '.join(found.regressions)}")


def find_previous(run_dir: Path, scheduled: ScheduledRun, benchmark: str) -> Path | None:
    """The latest valid run of the same schedule and benchmark for an earlier time; ``None`` when there is none.

    A backfilled run is compared with the one before its own time, not with the one that was made last.
    """
    return next((path for path in _earlier(run_dir) if _is_valid(path, scheduled.schedule, benchmark)), None)


def _earlier(run_dir: Path) -> Iterator[Path]:
    """Directories beside the run, the latest time first. Run ids of schedules sort by their time."""
    names = sorted((path.name for path in run_dir.parent.iterdir() if path.is_dir()), reverse=True)
    for name in names:
        if name < run_dir.name and not name.startswith("."):
            yield run_dir.parent / name


def _is_valid(path: Path, schedule: str, benchmark: str) -> bool:
    store = RunStore(path)
    try:
        request = store.request()
        scheduled = request.metadata.scheduled
        mine = scheduled is not None and scheduled.schedule == schedule and request.benchmark.id == benchmark
        return mine and store.files.run_info().status == "completed"
    except RecordError as error:
        _log.warning("%s is not looked at as a previous run: %s", path.name, error)
        return False
