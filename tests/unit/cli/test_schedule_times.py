"""Cron expressions and time zones of schedules."""

from __future__ import annotations

from datetime import UTC, date, datetime, time

import pytest

from agentcompass.cli.schedules.backfill import parse_time
from agentcompass.cli.schedules.checks import check_name, check_times
from agentcompass.cli.schedules.cron import parse_cron
from agentcompass.cli.schedules.timezones import find_timezone, skipped_days
from agentcompass.contracts.errors import ConfigurationError, UsageError


@pytest.mark.parametrize(
    ("text", "minutes", "hours"),
    [
        ("0 2 * * *", {0}, {2}),
        ("*/20 8-18/5 * * *", {0, 20, 40}, {8, 13, 18}),
        ("5,10-12 0 * * *", {5, 10, 11, 12}, {0}),
        (" @daily ", {0}, {0}),
        ("@hourly", {0}, set(range(24))),
    ],
)
def test_minutes_and_hours_of_an_expression(text: str, minutes: set[int], hours: set[int]) -> None:
    cron = parse_cron(text)
    assert (set(cron.minutes), set(cron.hours)) == (minutes, hours)


def test_names_of_months_and_days_are_numbers_and_sunday_has_two() -> None:
    cron = parse_cron("0 0 * JAN,mar-may 0,7,Sat")
    assert (set(cron.months), set(cron.weekdays)) == ({1, 3, 4, 5}, {0, 6})


def test_a_day_has_to_match_day_month_and_weekday() -> None:
    cron = parse_cron("30 6 13 * FRI")
    assert cron.matches_day(date(2026, 11, 13))
    assert not cron.matches_day(date(2026, 11, 20))
    assert not cron.matches_day(date(2026, 12, 13))
    assert cron.times() == [time(6, 30)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "has 0 fields instead of 5: minute, hour, day of month, month, day of week"),
        ("0 2 * *", "has 4 fields"),
        ("0 0 2 * * *", "has 6 fields"),
        ("60 2 * * *", "minute: 60 is not between 0 and 59"),
        ("0 24 * * *", "hour: 24 is not between 0 and 23"),
        ("0 2 0 * *", "day of month: 0 is not between 1 and 31"),
        ("0 2 * FOO *", "month: 'FOO' is not a number, or JAN and so on"),
        ("0 2 * * 8", "day of week: 8 is not between 0 and 7"),
        ("0 2 * * L", "day of week: 'L' is not a number"),
        ("0 2-1 * * *", "hour: '2-1' runs backwards"),
        ("*/0 2 * * *", "minute: a step of 0"),
        ("5/15 * * * *", "minute: write 5-59/15 instead of '5/15'"),
        ("0 ? * * *", "hour: '?' is not *, a number, a range or a step"),
        ("0 *-5 * * *", "hour: '*-5' is not a range"),
        ("0 2,, * * *", "hour: '' is not *"),
        ("0 ² * * *", "hour: '²' is not a number"),
        ("0 2 30,31 2 *", "never comes due: no Feb has a day 30 or 31"),
        ("0 2 31 4,6 *", "never comes due: no Apr or Jun has a day 31"),
        ("@every 5m", "'@every' is not supported; valid: @hourly"),
        ("@nightly", "'@nightly' is not supported"),
        ("CRON_TZ=UTC 0 2 * * *", "give the time zone with --timezone"),
        ("\n0 2 * * *; rm -rf /", "fields instead of 5"),
    ],
)
def test_a_wrong_expression_is_refused_by_its_field(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_cron(text)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("berlin", "did you mean 'Europe/Berlin'?"),
        ("new york", "did you mean 'America/New_York'?"),
        ("Europe/Brelin", "did you mean 'Europe/Berlin'"),
        ("Mars/Olympus_Mons", ", such as UTC or Europe/Berlin"),
        ("", ", such as UTC or Europe/Berlin"),
        ("../../etc/passwd", "is not the name of a time zone"),
    ],
)
def test_an_unknown_zone_is_refused_with_the_nearest_one(name: str, hint: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        find_timezone(name)
    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("cron", "zone", "expected"),
    [
        ("30 2 * * *", "Europe/Berlin", [date(2027, 3, 28)]),
        ("0 2 * * *", "Europe/Berlin", [date(2027, 3, 28)]),
        ("0 3 * * *", "Europe/Berlin", []),
        ("30 1 * * *", "Europe/London", [date(2027, 3, 28)]),
        ("30 2 * * *", "America/New_York", [date(2027, 3, 14)]),
        ("30 2 * * MON", "America/New_York", []),
        ("*/10 * * * *", "Europe/Berlin", []),
        ("30 2 * * *", "UTC", []),
        ("30 2 * * *", "Asia/Kolkata", []),
        ("15 2 * * *", "Australia/Lord_Howe", [date(2027, 10, 3)]),
        ("45 2 * * *", "Australia/Lord_Howe", []),
    ],
)
def test_days_on_which_clocks_jump_over_the_time(cron: str, zone: str, expected: list[date]) -> None:
    start = datetime(2026, 11, 1, tzinfo=UTC)
    assert skipped_days(parse_cron(cron), find_timezone(zone), start) == expected


def test_two_restrictions_on_the_day_are_warned_of() -> None:
    [warning] = check_times("0 2 1 * MON", "UTC")
    assert "launches start on days that are both" in warning
    assert check_times("0 2 1 * *", "UTC") == []


@pytest.mark.parametrize(
    ("text", "end_of_day", "expected"),
    [
        ("2026-07-01T02:00", False, datetime(2026, 7, 1, 0, 0, tzinfo=UTC)),
        ("2026-12-01T02:00", False, datetime(2026, 12, 1, 1, 0, tzinfo=UTC)),
        ("2026-12-01T02:00+05:00", False, datetime(2026, 11, 30, 21, 0, tzinfo=UTC)),
        ("2026-12-01", False, datetime(2026, 11, 30, 23, 0, tzinfo=UTC)),
        ("2026-12-01", True, datetime(2026, 12, 1, 22, 59, 59, 999999, tzinfo=UTC)),
    ],
)
def test_times_of_a_backfill_are_in_the_zone_of_the_schedule(
    text: str, end_of_day: bool, expected: datetime
) -> None:
    zone = find_timezone("Europe/Berlin")
    assert parse_time(text, zone, "--from", end_of_day=end_of_day) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "01.12.2026", "0001-01-01"])
def test_a_backfill_time_that_is_none_names_its_flag(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--to"):
        parse_time(text, find_timezone("Europe/Berlin"), "--to")


@pytest.mark.parametrize("name", ["launches", "Launches", "../x", ""])
def test_a_name_whose_folder_is_taken_or_impossible_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a schedule"):
        check_name(name)
