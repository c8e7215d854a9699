"""Cron expressions, checked here: what the server says of a wrong one names no place, and one that never
comes due it takes without a word."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, time

from ...contracts.errors import ConfigurationError

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
LEAP_YEAR = 2028
SHORTHANDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_ITEM = re.compile(r"(?P<first>\*|\w+)(?:-(?P<last>\w+))?(?:/(?P<step>\d+))?")


@dataclass(frozen=True)
class Field:
    """One of the five fields."""

    name: str
    low: int
    high: int
    names: Mapping[str, int]


FIELDS = (
    Field("minute", 0, 59, {}),
    Field("hour", 0, 23, {}),
    Field("day of month", 1, 31, {}),
    Field("month", 1, 12, {name: number for number, name in enumerate(MONTHS, start=1)}),
    Field("day of week", 0, 7, {name: number for number, name in enumerate(WEEKDAYS)}),
)


@dataclass(frozen=True)
class Cron:
    """A checked expression and what it matches."""

    text: str
    """With single blanks and without a shorthand, as the server gets it."""
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""

    @property
    def restricts_both_days(self) -> bool:
        """True when day of month and day of week are both given. Temporal demands both, cron either."""
        return len(self.days) < 31 and len(self.weekdays) < 7

    def matches_day(self, day: date) -> bool:
        """Whether any time of this day is on the schedule."""
        return day.month in self.months and day.day in self.days and day.isoweekday() % 7 in self.weekdays

    def times(self) -> list[time]:
        """The times of a day that matches."""
        return [time(hour, minute) for hour in sorted(self.hours) for minute in sorted(self.minutes)]


def parse_cron(text: str) -> Cron:
    """Check an expression of five fields, or a shorthand such as ``@daily``.

    Raises ``ConfigurationError`` that names the field.
    """
    words = SHORTHANDS.get(text.strip().lower(), text).split()
    if words and (words[0].startswith("@") or "=" in words[0]):
        hint = "give the time zone with --timezone" if "=" in words[0] else f"valid: {', '.join(SHORTHANDS)}"
        raise _problem(text, f"{words[0]!r} is not supported; {hint}")
    if len(words) != len(FIELDS):
        names = ", ".join(field.name for field in FIELDS)
        raise _problem(text, f"has {len(words)} fields instead of 5: {names}")
    values = [_parse_field(text, word, field) for word, field in zip(words, FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = values
    cron = Cron(" ".join(words), minutes, hours, days, months, frozenset(number % 7 for number in weekdays))
    if not any(day <= monthrange(LEAP_YEAR, month)[1] for month in months for day in days):
        raise _problem(
            text,
            f"never comes due: no {_and(MONTHS[month - 1].capitalize() for month in sorted(months))} has a day {_and(map(str, sorted(days)))}",
        )
    return cron


def _parse_field(text: str, word: str, field: Field) -> frozenset[int]:
    found: set[int] = set()
    for item in word.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise _problem(text, f"{field.name}: {item!r} is not *, a number, a range or a step such as */15")
        step = int(match["step"] or 1)
        if step < 1:
            raise _problem(text, f"{field.name}: a step of 0 in {item!r}")
        if match["first"] == "*":
            if match["last"]:
                raise _problem(text, f"{field.name}: {item!r} is not a range")
            first, last = field.low, 6 if field.high == 7 else field.high
        else:
            first = _number(text, match["first"], field)
            last = _number(text, match["last"], field) if match["last"] else first
            if match["step"] and not match["last"]:
                raise _problem(text, f"{field.name}: write {first}-{field.high}/{step} instead of {item!r}")
        if last < first:
            raise _problem(text, f"{field.name}: {item!r} runs backwards")
        found.update(range(first, last + 1, step))
    return frozenset(found)


def _number(text: str, word: str, field: Field) -> int:
    named = field.names.get(word.lower())
    if named is not None:
        return named
    if not (word.isascii() and word.isdigit()):
        names = f", or {next(iter(field.names)).upper()} and so on" if field.names else ""
        raise _problem(text, f"{field.name}: {word!r} is not a number{names}")
    number = int(word)
    if not field.low <= number <= field.high:
        raise _problem(text, f"{field.name}: {number} is not between {field.low} and {field.high}")
    return number


def _problem(text: str, problem: str) -> ConfigurationError:
    return ConfigurationError(f"--cron {text!r}: {problem}")


def _and(words: Iterable[str]) -> str:
    return " or ".join(words)
