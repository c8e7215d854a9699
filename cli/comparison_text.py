"""A comparison of two runs for people: the difference first, then what it covers, then the tasks."""

from __future__ import annotations

from collections.abc import Sequence

from ..activities.metrics.headline import format_interval, format_number
from ..activities.metrics.text import one_line
from ..contracts.comparison import ComparedRun, Comparison, TaskChange, TaskGap

MAX_TASKS = 20
"""Tasks named under each heading; ``--json`` has all of them."""


def comparison_lines(found: Comparison) -> list[str]:
    """Lines of plain text, fit for a terminal."""
    return [
        _run("Old", found.old),
        _run("New", found.new),
        _difference(found),
        *(f"Note: {one_line(note, 500)}" for note in found.notes),
        *_coverage(found),
        *_changes("Worse", found.worse),
        *_changes("Better", found.better),
        *_gaps("Lost the score", found.lost),
        *_gaps("Got a score", found.gained),
    ]


def _run(name: str, run: ComparedRun) -> str:
    if run.value is not None:
        number = format_number(run.value)
    elif run.reference_value is not None:
        number = f"no official score, reference {format_number(run.reference_value)}"
    else:
        number = "no score"
    if run.interval:
        number += f" ({run.interval.level * 100:g}% CI {format_interval(run.interval)})"
    counts = run.counts
    who = one_line(" ".join(part for part in (run.model, run.harness) if part), 80)
    return (
        f"{name}: {one_line(run.series)} = {number} | {counts.evaluated}/{counts.total} tasks evaluated | "
        f"{one_line(run.run_id)} {who} ({run.status or 'not over'})"
    )


def _difference(found: Comparison) -> str:
    paired = found.paired
    if paired.difference is None:
        return "Difference: unknown, no task was evaluated in both runs"
    interval = (
        f" ({paired.interval.level * 100:g}% CI {format_interval(paired.interval)})"
        if paired.interval
        else " (no interval)"
    )
    sign = "+" if paired.difference > 0 else ""
    return (
        f"Difference: {sign}{format_number(paired.difference)}{interval} over {paired.tasks} common tasks: "
        f"{paired.better} better, {paired.worse} worse, {paired.equal} equal"
    )


def _coverage(found: Comparison) -> list[str]:
    parts = [
        f"{len(found.lost)} lost their score" if found.lost else "",
        f"{len(found.gained)} got one" if found.gained else "",
        f"{len(found.changed_content)} changed in content" if found.changed_content else "",
        f"{found.only_old} only in the old run" if found.only_old else "",
        f"{found.only_new} only in the new run" if found.only_new else "",
    ]
    told = ", ".join(part for part in parts if part)
    return [f"Not compared: {told}"] if told else []


def _changes(title: str, changes: Sequence[TaskChange]) -> list[str]:
    rows = [
        f"  {one_line(item.task_id, 80)}  {format_number(item.old)} -> {format_number(item.new)}"
        for item in changes[:MAX_TASKS]
    ]
    return _section(title, rows, len(changes))


def _gaps(title: str, gaps: Sequence[TaskGap]) -> list[str]:
    rows = [f"  {one_line(item.task_id, 80)}  {one_line(item.reason, 160)}" for item in gaps[:MAX_TASKS]]
    return _section(title, rows, len(gaps))


def _section(title: str, rows: list[str], total: int) -> list[str]:
    if not total:
        return []
    rest = [f"  … and {total - len(rows)} more; --json has all"] if total > len(rows) else []
    return [f"{title}: {total}", *rows, *rest]
