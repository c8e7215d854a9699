"""Which runs a folder holds: by looking into it, or by the summary of a launch."""

from __future__ import annotations

import os
from pathlib import Path

from ...contracts.launch import LaunchSummary
from ..store.files import find_model

LAUNCH_SUMMARY = "launch_summary.json"
MAX_DEPTH = 4
"""Levels below the folder: ``<run_name>/<label>/<run_id>`` and one more."""
MAX_RUNS = 1000


def is_run(directory: Path) -> bool:
    """True for what a run left, also when its ``run_info.json`` is lost."""
    return (directory / "run_info.json").exists() or (
        (directory / "details").is_dir() and (directory / ".state").is_dir()
    )


def find_runs(folder: Path) -> list[Path]:
    """The run directories in ``folder``, by path, at most :data:`MAX_RUNS`; links are not followed.

    Of a launch's folder those that its ``launch_summary.json`` names. Raises ``RecordError`` when that is damaged.
    """
    launch = launch_of(folder)
    if launch is not None:
        named = [results_of(folder) / request.run_dir for request in launch.requests if request.run_dir]
        return [path for path in named[:MAX_RUNS] if is_run(path)]
    found: list[Path] = []
    levels: list[tuple[Path, int]] = [(folder, 0)]
    while levels and len(found) < MAX_RUNS:
        directory, depth = levels.pop()
        if depth and is_run(directory):
            found.append(directory)
        elif depth < MAX_DEPTH:
            levels += [(path, depth + 1) for path in _folders(directory)]
    return sorted(found)


def launch_of(folder: Path) -> LaunchSummary | None:
    """The launch whose summary lies in ``folder``; ``None`` for any other folder."""
    return find_model(folder / LAUNCH_SUMMARY, LaunchSummary)


def _folders(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            names = [
                entry.name
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            ]
    except OSError:
        return []  # may not be read: then it shows no runs
    return [directory / name for name in sorted(names, reverse=True)]


def results_of(launch_folder: Path) -> Path:
    """The results directory that the runs of a launch are named in: ``<results_dir>/launches/<launch id>``."""
    return launch_folder.resolve().parent.parent
