"""A comparison as a line for people and as a section of ``summary.md``."""

from __future__ import annotations

from collections.abc import Sequence

from ...contracts.comparison import Comparison, TaskChange, TaskGap
from .headline import format_interval, format_number
from .text import markdown, table

MAX_TASKS = 20
"""Tasks named in the section; comparison.json has all of them."""


def comparison_line(found: Comparison) -> str:
    """How the new run compares with the old one, in one line."""
    paired = found.paired
    if paired.difference is None:
        return f"no task in common with run {found.old.run_id}"
    sign = "+" if paired.difference > 0 else ""
    interval = f" (95% CI {format_interval(paired.interval)})" if paired.interval else ""
    return (
        f"{found.metric} {sign}{format_number(paired.difference)}{interval} against run {found.old.run_id} over "
        f"{paired.tasks} common tasks: {paired.better} better, {paired.worse} worse"
    )


def comparison_section(found: Comparison) -> list[str]:
    """Lines of Markdown: the difference, what it leaves out, and the tasks that changed."""
    lines = [
        f"## Compared with {markdown(found.old.run_id)}",
        "",
        f"{markdown(comparison_line(found), 500)}.",
    ]
    if found.regressions:
        lines += ["", f"**Regression**: {markdown('; '.join(found.regressions), 500)}."]
    if found.notes:
        lines += ["", *(f"- {markdown(note, 500)}" for note in found.notes)]
    left_out = _left_out(found)
    if left_out:
        lines += ["", f"Not compared: {left_out}."]
    rows = [*_changed(found.worse, "worse"), *_lost(found.lost), *_changed(found.better, "better")]
    if rows:
        lines += ["", *table(["Task", "Change", "Before", "Now"], rows[:MAX_TASKS])]
    if len(rows) > MAX_TASKS:
        lines += ["", f"… and {len(rows) - MAX_TASKS} more in comparison.json"]
    return lines


def _left_out(found: Comparison) -> str:
    counts = (
        (len(found.lost), "lost their score"),
        (len(found.gained), "had none before"),
        (len(found.changed_content), "changed in content"),
        (found.only_old, "only in the earlier run"),
        (found.only_new, "only in this run"),
    )
    return ", ".join(f"{count} {what}" for count, what in counts if count)


def _changed(changes: Sequence[TaskChange], what: str) -> list[tuple[str, ...]]:
    return [
        (markdown(item.task_id), what, format_number(item.old), format_number(item.new)) for item in changes
    ]


def _lost(gaps: Sequence[TaskGap]) -> list[tuple[str, ...]]:
    return [(markdown(item.task_id), "lost its score", "", markdown(item.reason)) for item in gaps]
