"""``agentcompass schedule``: launches that start by the clock."""

from __future__ import annotations

from typing import Annotated

import typer

from ..help import GroupedCommand, GroupedGroup
from .gate_flags import AsJson
from .schedule_create import create

schedule_app = typer.Typer(
    cls=GroupedGroup,
    help="Start launches by the clock, and compare each with the one before it.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="See `agentcompass schedule list`.")]

schedule_app.command("create", cls=GroupedCommand)(create)


@schedule_app.command("list", cls=GroupedCommand)
def list_(as_json: AsJson = False) -> int:
    """List all schedules, when each is due, and how its latest launch ended."""
    import asyncio

    from ..schedules import service, text
    from ..schedules.facts import facts_json
    from .output import print_json, print_table, warn

    found, problems = asyncio.run(service.list_schedules())
    for problem in problems:
        warn(problem)
    if as_json:
        print_json([facts_json(facts) for facts in found])
        return 0
    rows = []
    for facts in found:
        following = text.shown(facts.next_times[0], text.zone_of(facts)) if facts.next_times else "-"
        times = f"{facts.cron} {facts.timezone}"
        rows.append((facts.name, text.state_of(facts), times, following, text.last_of(facts)))
    print_table(("SCHEDULE", "STATE", "TIMES", "NEXT", "LATEST"), rows)
    return 0


@schedule_app.command("show", cls=GroupedCommand)
def show(name: Name, as_json: AsJson = False) -> int:
    """Show a schedule: its next times, its latest launches and their outcomes, and its plan."""
    import asyncio
    import json

    from ..config import spec_values
    from ..schedules import service, text
    from ..schedules.facts import facts_json
    from .output import print_json, print_table, warn

    facts = asyncio.run(service.show(name))
    if as_json:
        print_json(facts_json(facts))
        return 0
    print("\n".join([*text.facts_lines(facts), text.count_line(facts)]))
    for note in text.service_notes(facts):
        warn(note)
    if facts.actions:
        print()
        print_table(("SCHEDULED", "LAUNCH", "OUTCOME", "MESSAGE"), text.action_rows(facts))
    print()
    rows = [(path, json.dumps(value, ensure_ascii=False)) for path, value in spec_values(facts.plan)]
    print_table(("SETTING", "VALUE"), rows)
    return 0


@schedule_app.command("pause", cls=GroupedCommand)
def pause(
    name: Name,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Shown by `show` and in the UI.")
    ] = "",
) -> int:
    """Start nothing by the clock until `resume`; a launch that runs goes on."""
    import asyncio

    from ..schedules import service

    done, facts = asyncio.run(service.pause(name, reason))
    state = "is paused" if done else "was paused already"
    note = f" ({facts.note})" if facts.note and not done else ""
    print(f"Schedule {name} {state}{note}; go on with: agentcompass schedule resume {name}")
    return 0


@schedule_app.command("resume", cls=GroupedCommand)
def resume(name: Name) -> int:
    """Start launches by the clock again."""
    import asyncio

    from ..schedules import service, text
    from .output import warn

    done, facts = asyncio.run(service.resume(name))
    following = text.shown(facts.next_times[0], text.zone_of(facts)) if facts.next_times else "never"
    print(f"Schedule {name} {'goes on' if done else 'was not paused'}; next: {following}")
    for note in text.service_notes(facts):
        warn(note)
    return 0


@schedule_app.command("trigger", cls=GroupedCommand)
def trigger(name: Name, as_json: AsJson = False) -> int:
    """Start a launch of a schedule now, also when it is paused.

    With overlap `skip` nothing is started while an earlier launch goes on.
    """
    import asyncio

    from ..schedules import service, text
    from .output import print_json, warn

    action, facts = asyncio.run(service.trigger(name))
    if as_json:
        print_json({"started": action.model_dump(mode="json") if action else None})
    else:
        print("\n".join(text.trigger_lines(action, facts)))
    for note in text.service_notes(facts):
        warn(note)
    return 0


@schedule_app.command("backfill", cls=GroupedCommand)
def backfill(
    name: Name,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="TIME", help="First time, in the schedule's zone: 2026-11-30[T02:00]."
        ),
    ],
    end: Annotated[
        str, typer.Option("--to", metavar="TIME", help="Last time; a date means its end.  [default: now]")
    ] = "",
    again: Annotated[
        bool, typer.Option("--again", help="Also repeat times whose launch has completed.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the times and start nothing.")] = False,
    as_json: AsJson = False,
) -> int:
    """Start the launches of past times, one after the other, each with the run id of its time."""
    import asyncio

    from ..schedules import backfill as module
    from ..schedules import text
    from .output import print_json

    plan = asyncio.run(module.backfill(name, start, end, again=again, dry_run=dry_run))
    if as_json:
        print_json(
            {"starts": [at.isoformat() for at in plan.times], "done": [at.isoformat() for at in plan.done]}
        )
    else:
        print("\n".join(text.backfill_lines(name, plan, dry_run=dry_run)))
    return 0


@schedule_app.command("delete", cls=GroupedCommand)
def delete(name: Name) -> int:
    """Remove a schedule. Launches that it started go on; their runs and results stay."""
    import asyncio

    from ..schedules import service

    facts, commands = asyncio.run(service.delete(name))
    print(f"Schedule {name} is deleted.")
    for item in facts.actions:
        if item.outcome == "running":
            print(f"Launch {item.launch_id} goes on; end it with: agentcompass cancel {item.launch_id}")
    for command in commands:
        print("A launch of it waits for a worker, and begins when there is one: agentcompass worker")
        print(f"End it with: {command}")
    return 0
