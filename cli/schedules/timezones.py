"""Time zones of schedules: checked by name, and the days on which clocks jump over a scheduled time."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, available_timezones

from ...contracts.errors import ConfigurationError
from .cron import Cron

HORIZON_DAYS = 400
"""Long enough to meet every change of the clocks that comes once a year."""


def find_timezone(name: str) -> tzinfo:
    """The zone of this name. Raises ``ConfigurationError`` with the nearest names."""
    if name == "UTC":
        return UTC  # also where there is no time zone data
    known = available_timezones()
    if not known:
        raise ConfigurationError(
            "this machine has no time zone data, so --timezone cannot be checked; install tzdata"
        )
    if name in known:
        return ZoneInfo(name)
    raise ConfigurationError(f"--timezone {name!r} is not the name of a time zone{_nearest(name, known)}")


def skipped_days(cron: Cron, zone: tzinfo, start: datetime) -> list[date]:
    """Days of the coming year without a launch, because the clocks jump over all their scheduled times."""
    found = []
    for first_missing, first_again in _jumps(zone, start):
        day = first_missing.date()
        times = [datetime.combine(day, time) for time in cron.times()]
        if cron.matches_day(day) and times and all(first_missing <= at < first_again for at in times):
            found.append(day)
    return found


def _jumps(zone: tzinfo, start: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Local times that do not exist, as ranges without the end: at each change to summer time."""
    instant = start.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    for _ in range(HORIZON_DAYS):
        following = instant + timedelta(days=1)
        if _offset(zone, following) != _offset(zone, instant):
            change = _change(zone, instant, following)
            before, after = _offset(zone, change - timedelta(minutes=1)), _offset(zone, change)
            if after > before:
                plain = change.replace(tzinfo=None)
                yield plain + before, plain + after
        instant = following


def _change(zone: tzinfo, low: datetime, high: datetime) -> datetime:
    """The first whole minute with the offset of ``high``."""
    wanted = _offset(zone, high)
    while high - low > timedelta(minutes=1):
        middle = low + timedelta(minutes=(high - low) // timedelta(minutes=2))
        if _offset(zone, middle) == wanted:
            high = middle
        else:
            low = middle
    return high


def _offset(zone: tzinfo, instant: datetime) -> timedelta:
    return instant.astimezone(zone).utcoffset() or timedelta()


def _nearest(name: str, known: set[str]) -> str:
    wanted = name.strip().replace(" ", "_").casefold()
    near = [zone for zone in sorted(known) if wanted in (zone.casefold(), zone.rsplit("/", 1)[-1].casefold())]
    near = near or difflib.get_close_matches(name, known, n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(map(repr, near[:2]))}?" if near else ", such as UTC or Europe/Berlin"
