"""Schedules as text for people. Times are shown in the schedule's own zone."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ...contracts.workflows import CLUSTER_QUEUE
from .backfill import BackfillPlan
from .facts import WAITING, ScheduleFacts, StartedAction

MAX_MESSAGE = 300


def zone_of(facts: ScheduleFacts) -> tzinfo:
    """The schedule's zone; UTC where this machine does not know it."""
    try:
        return ZoneInfo(facts.timezone)
    except (ZoneInfoNotFoundError, ValueError):
        return UTC


def shown(at: datetime, zone: tzinfo) -> str:
    """``2026-12-01 02:00 CET``; with seconds where there are some, as after a trigger."""
    return f"{at.astimezone(zone):{'%Y-%m-%d %H:%M:%S %Z' if at.second else '%Y-%m-%d %H:%M %Z'}}"


def facts_lines(facts: ScheduleFacts) -> list[str]:
    """A schedule in some lines, without its plan and its launches."""
    zone = zone_of(facts)
    lines = [
        f"Schedule: {facts.name} ({state_of(facts)})",
        f"Times: {facts.cron} in {facts.timezone}",
    ]
    if facts.note:
        lines.append(f"Note: {facts.note}")
    if not facts.paused:
        lines.append(f"Next: {', '.join(shown(at, zone) for at in facts.next_times[:3]) or 'never'}")
    lines += [
        f"Overlap: {facts.overlap or 'set by another tool'}",
        f"Catch-up window: {facts.catchup_window_seconds:g} s",
        f"Fails on a regression: {'yes' if facts.fail_on_regression else 'no'}",
        f"Results: {facts.plan.runtime.results_dir}/{facts.name}",
        f"Task queue: {facts.task_queue} ({'served' if facts.served else 'no worker serves it'})",
    ]
    if facts.ui_address:
        lines.append(f"Temporal UI: {facts.ui_address}")
    return lines


def action_rows(facts: ScheduleFacts) -> list[tuple[str, str, str, str]]:
    """The launches that it started: scheduled time, launch, outcome, what there is to say."""
    zone = zone_of(facts)
    return [
        (shown(item.scheduled_at, zone), item.launch_id or "-", item.outcome, _short(item.message))
        for item in facts.actions
    ]


def count_line(facts: ScheduleFacts) -> str:
    """How many launches were started and how many times were left out."""
    return (
        f"Launches: {facts.started} started, {facts.skipped} skipped because an earlier one went on, "
        f"{facts.missed} missed"
    )


def state_of(facts: ScheduleFacts) -> str:
    """``active`` or ``paused``."""
    return "paused" if facts.paused else "active"


def last_of(facts: ScheduleFacts) -> str:
    """The outcome of the latest launch."""
    return facts.actions[0].outcome if facts.actions else "-"


def service_notes(facts: ScheduleFacts) -> list[str]:
    """What has to run for launches to be carried out; nothing when it does."""
    if facts.served:
        return []
    queue = "" if facts.task_queue == CLUSTER_QUEUE else f" --task-queue {facts.task_queue}"
    # Only of the local server is the address of the UI known.
    server = "" if facts.ui_address is None else "; it starts the local Temporal server, too"
    return [
        f"no worker serves the task queue {facts.task_queue!r}, so launches wait; keep one running, "
        f"with the keys of the plan in its environment: agentcompass worker{queue}{server}"
    ]


def trigger_lines(action: StartedAction | None, facts: ScheduleFacts) -> list[str]:
    """What ``trigger`` did."""
    if action is None:
        running = next((item for item in facts.actions if item.outcome in ("running", WAITING)), None)
        which = f"launch {running.launch_id or running.workflow_id} is not over" if running else "it is busy"
        what = "starts afterwards" if facts.overlap == "buffer-one" else "is skipped"
        return [f"Nothing was started: {which}, and with overlap {facts.overlap} another one {what}."]
    lines = [f"Started: {action.workflow_id}", f"See: agentcompass schedule show {facts.name}"]
    if action.launch_id:
        lines = [f"Launch: {action.launch_id}", f"Follow it with: agentcompass attach {action.launch_id}"]
    if action.ui_address:
        lines.append(f"Temporal UI: {action.ui_address}")
    return lines


def backfill_lines(name: str, plan: BackfillPlan, *, dry_run: bool) -> list[str]:
    """What ``backfill`` did, or would do."""
    zone = plan.zone
    lines = [f"{shown(at, zone)}: has run already" for at in plan.done]
    verb = "would start" if dry_run else "starts"
    lines += [f"{shown(at, zone)}: {verb}" for at in plan.times]
    if not plan.times:
        again = "; --again repeats them" if plan.done else ""
        lines.append(f"There is nothing to do{again}.")
    elif not dry_run:
        lines.append(f"See what becomes of them: agentcompass schedule show {name}")
    return lines


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_MESSAGE else f"{line[: MAX_MESSAGE - 1]}…"
