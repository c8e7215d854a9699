"""One line that says what a run with ``--reuse`` took over, or that there was nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from ..activities.store import open_store, read_run_info, read_snapshot
from ..activities.store.progress_log import read_events
from ..contracts.errors import RecordError
from ..contracts.launch import RequestResult, RequestStatus


class ReuseNotes:
    """Tells of each run once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    async def fresh(self, requests: Iterable[RequestStatus | RequestResult]) -> list[str]:
        """The lines for runs that were not told of yet."""
        notes = []
        for run_dir in [item.run_dir for item in requests if item.run_dir]:
            if run_dir not in self._told:
                self._told.add(run_dir)
                notes.append(await asyncio.to_thread(reuse_note, Path(run_dir)))
        return [note for note in notes if note]


def reuse_note(run_dir: Path) -> str:
    """Empty for a run that was not to reuse anything, or that lies on another machine."""
    try:
        if not open_store(run_dir).request().runtime.reuse:
            return ""
        source = read_run_info(run_dir / "run_info.json").reused_from
        snapshot = read_snapshot(run_dir)
    except RecordError:
        return ""
    if source is None:
        return f"Nothing to reuse: {run_dir.parent} holds no earlier run with a finished task."
    finished = f"{snapshot.reused_tasks} of {snapshot.total_tasks} tasks" if snapshot else "finished tasks"
    kept = _kept_attempts(run_dir)
    beside = f", and {kept} attempts of tasks that get further ones" if kept else ""
    others = f"; {source.other_settings.note}" if source.other_settings else ""
    return f"Reused: {finished}{beside} from run {source.run_id}{others}"


def _kept_attempts(run_dir: Path) -> int:
    """Attempts that were taken over of tasks which are not finished by that."""
    for event in read_events(run_dir / "progress.jsonl"):
        if event.event == "reuse_loaded":
            found = event.payload.get("kept_attempts", 0)
            return found if isinstance(found, int) else 0
    return 0
