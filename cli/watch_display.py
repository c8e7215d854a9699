"""The view of ``agentcompass status --watch`` on a terminal: the live view, and what runs right now."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..activities.metrics.text import one_line
from ..contracts.launch import LaunchStatus, RunningTask
from ..contracts.records import ProgressSnapshot
from .live_display import LiveDisplay

SHOWN_TASKS = 12
QUIET_SECONDS = 300.0
"""From here on the age of a task's last sign of life is marked."""


class WatchDisplay(LiveDisplay):
    """The bars of all requests, and below them the tasks without news for longest."""

    _running: tuple[RunningTask, ...] = ()

    def update(self, status: LaunchStatus, snapshot: ProgressSnapshot | None = None) -> None:
        """Take over the state; it is drawn with the next refresh."""
        self._running = tuple(task for request in status.requests for task in request.running_tasks)
        super().update(status, snapshot)

    def render(self) -> RenderableType:
        """The view as it is now."""
        if not self._running:
            return super().render()
        table = Table.grid(padding=(0, 2))
        for task in self._running[:SHOWN_TASKS]:
            table.add_row(*_cells(task))
        more = len(self._running) - SHOWN_TASKS
        rest = [Text(f"  … and {more} more", style="dim")] if more > 0 else []
        return Group(
            super().render(), Text("Running, the longest without news first", style="dim"), table, *rest
        )


def _cells(task: RunningTask) -> tuple[Text, ...]:
    quiet = task.phase_seconds if task.last_step_seconds is None else task.last_step_seconds
    style = "yellow" if quiet >= QUIET_SECONDS else "dim"
    step = "" if task.last_step_seconds is None else f"last step {task.last_step_seconds:.0f} s ago"
    return (
        Text(f"  {one_line(task.task_id, 40)} a{task.attempt or 1}"),
        Text(one_line(task.phase, 30), style="cyan"),
        Text(f"{task.phase_seconds:.0f} s"),
        Text(step, style=style),
    )
