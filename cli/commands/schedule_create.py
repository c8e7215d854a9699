"""``agentcompass schedule create``: a launch file and the times at which it is launched."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ..flags import takes_flags
from .gate_flags import AsJson
from .shared_flags import LaunchFileConfig

TIMES = "Times"
RUNS = "Runs"


@dataclass(frozen=True)
class ScheduleFlags:
    """What can be said about a schedule."""

    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Letters, digits, '.', '_' and '-'; a folder in the results."),
    ]
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The launch file (YAML or JSON).")]
    cron: Annotated[
        str,
        typer.Option(
            "--cron",
            metavar="'M H DOM MON DOW'",
            rich_help_panel=TIMES,
            help="When: minute, hour, day of month, month, day of week; or @daily and the like.",
        ),
    ]
    timezone: Annotated[
        str, typer.Option("--timezone", metavar="ZONE", rich_help_panel=TIMES, help="Such as Europe/Berlin.")
    ] = "UTC"
    overlap: Annotated[
        str,
        typer.Option(
            "--overlap",
            metavar="skip|buffer-one|cancel-other|allow-all",
            rich_help_panel=TIMES,
            help="What happens at a time when an earlier launch is not over.",
        ),
    ] = "skip"
    catchup_window_seconds: Annotated[
        float,
        typer.Option(
            "--catchup-window-seconds",
            metavar="N",
            rich_help_panel=TIMES,
            help="How late a launch may start for which no server was there in time.",
        ),
    ] = 3600
    paused: Annotated[
        bool, typer.Option("--paused", rich_help_panel=TIMES, help="Start nothing until `schedule resume`.")
    ] = False
    fail_on_regression: Annotated[
        bool,
        typer.Option(
            "--fail-on-regression",
            rich_help_panel=RUNS,
            help="A launch fails when a run is worse than the run before it.",
        ),
    ] = False
    results_dir: Annotated[
        str | None,
        typer.Option(
            "--results-dir", metavar="DIR", rich_help_panel=RUNS, help="Where the schedule's folder goes."
        ),
    ] = None
    config: LaunchFileConfig = None
    replace: Annotated[
        bool, typer.Option("--replace", help="Give a schedule that exists these times and this plan.")
    ] = False


@takes_flags(ScheduleFlags)
def create(flags: ScheduleFlags, as_json: AsJson = False) -> int:
    """Launch a plan by the clock.

    The plan is resolved now: paths become absolute, and later changes of the file count only after
    `--replace`. Secrets stay references, which workers read.
    """
    import asyncio

    from ...contracts.schedules import OverlapPolicy, ScheduledLaunchInput
    from ..schedules import service, text
    from ..schedules.checks import check_catchup, check_name, check_times, plan_of
    from ..schedules.definition import ScheduleOptions
    from ..schedules.facts import facts_json
    from .choices import one_of
    from .output import print_json, warn

    check_name(flags.name)
    check_catchup(flags.catchup_window_seconds)
    policy = OverlapPolicy(one_of(flags.overlap, tuple(item.value for item in OverlapPolicy), "--overlap"))
    warnings = check_times(flags.cron, flags.timezone)
    spec, more = plan_of(flags.file, flags.config or (), flags.results_dir)
    for warning in [*warnings, *more]:
        warn(warning)
    input = ScheduledLaunchInput(
        schedule=flags.name,
        cron=flags.cron,
        timezone=flags.timezone,
        spec=spec,
        fail_on_regression=flags.fail_on_regression,
    )
    options = ScheduleOptions(policy, flags.catchup_window_seconds, flags.paused)
    facts = asyncio.run(service.create(input, options, replace_it=flags.replace))
    if as_json:
        print_json(facts_json(facts))
    else:
        print("\n".join(text.facts_lines(facts)))
        print(f"Try it now: agentcompass schedule trigger {flags.name}")
    for note in text.service_notes(facts):
        warn(note)
    return 0
