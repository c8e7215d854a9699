"""What is checked of a schedule before any server is asked."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from ...activities.launch_summary import LAUNCHES_FOLDER
from ...contracts.base import MAX_SECONDS
from ...contracts.errors import ConfigurationError, UsageError
from ...contracts.launch import LaunchSpec
from ...contracts.schedules import is_schedule_name
from ..config import LaunchArguments, refuse_literal_of_schedule, resolve_launch
from .cron import parse_cron
from .definition import MIN_CATCHUP_SECONDS
from .timezones import find_timezone, skipped_days


def check_name(name: str) -> None:
    """Raises ``UsageError`` for a name that cannot be a folder and part of an id."""
    if not is_schedule_name(name):
        raise UsageError(
            f"{name!r} cannot be the name of a schedule: at most 64 letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit"
        )
    if name.casefold() == LAUNCHES_FOLDER:
        raise UsageError(f"{name!r} cannot be the name of a schedule: the folder holds summaries of launches")


def check_catchup(seconds: float) -> None:
    """Raises ``ConfigurationError`` for what the server would silently change."""
    if not MIN_CATCHUP_SECONDS <= seconds <= MAX_SECONDS:
        raise ConfigurationError(
            f"--catchup-window-seconds {seconds:g} is not between {MIN_CATCHUP_SECONDS:g} and {MAX_SECONDS:g}"
        )


def check_times(cron: str, timezone: str) -> list[str]:
    """Warnings about times that may surprise. Raises ``ConfigurationError`` for wrong ones."""
    times, zone = parse_cron(cron), find_timezone(timezone)
    warnings = []
    if times.restricts_both_days:
        warnings.append(
            f"--cron {cron!r} names a day of the month and a day of the week: launches start on days that are both"
        )
    days = skipped_days(times, zone, datetime.now(UTC))
    if days:
        warnings.append(
            f"no launch starts on {', '.join(map(str, days))}: clocks in {timezone} jump over its time of day; "
            "UTC has no such days"
        )
    return warnings


def plan_of(file: Path, config: Sequence[str], results_dir: str | None) -> tuple[LaunchSpec, list[str]]:
    """The launch file resolved, and warnings. Raises ``UsageError`` for what no schedule can launch."""
    arguments = LaunchArguments(config=tuple(config), results_dir=results_dir)
    resolved = resolve_launch(file, arguments, store_literal=refuse_literal_of_schedule)
    _check_folder(Path(resolved.spec.runtime.results_dir))
    warnings = list(resolved.warnings)
    for request in resolved.spec.requests:
        name = request.metadata.request_name
        if request.output.run_id:
            raise ConfigurationError(
                f"{file}: request {name!r} has an output.run_id; the runs of a schedule are named after their time"
            )
        if request.runtime.reuse_run_id:
            raise ConfigurationError(
                f"{file}: request {name!r} takes over run {request.runtime.reuse_run_id!r} each time; "
                "leave runtime.reuse_run_id out"
            )
        if request.runtime.reuse:
            warnings.append(
                f"request {name!r} has runtime.reuse: each run takes over what the one before has finished, "
                "so it evaluates only tasks that failed or changed"
            )
    return resolved.spec, warnings


def _check_folder(results: Path) -> None:
    """Only what is wrong on any machine: with a cluster, workers write there."""
    existing = next((folder for folder in (results, *results.parents) if folder.exists()), None)
    if existing is not None and not existing.is_dir():
        raise ConfigurationError(f"results directory {results}: {existing} is not a directory")
