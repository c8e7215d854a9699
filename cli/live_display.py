"""The live view of a terminal: a bar and counts for each request, redrawn in place."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ..contracts.launch import LaunchResult, LaunchStatus
from ..contracts.records import ProgressSnapshot
from .progress_text import RequestProgress, notices, progress_of

REFRESH_PER_SECOND = 4
BAR_WIDTH = 30

_COUNTS = (
    ("●", "running", "running", "cyan"),
    ("✗", "failed", "failed", "bold red"),
    ("⚠", "error", "with errors", "red"),
    ("⚑", "warning", "with warnings", "yellow"),
    ("⊘", "skipped", "skipped", "dim"),
    ("↻", "reused", "reused", "blue"),
)


class LiveDisplay:
    """Redraws the state of a launch in place."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, highlight=False)
        self._started = time.monotonic()
        self._requests: list[RequestProgress] = []
        self._state = "starting"
        self._notices: list[str] = []
        self._ui_address: str | None = None
        self._live = Live(
            console=self._console,
            get_renderable=self.render,
            refresh_per_second=REFRESH_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._open = True

    def update(self, status: LaunchStatus, snapshot: ProgressSnapshot | None = None) -> None:
        """Take over the state; it is drawn with the next refresh."""
        if self._open:
            # The last state of a launch comes without its requests; theirs stays in view.
            self._requests = progress_of(status, snapshot) or self._requests
            self._state = status.state
            self._notices = notices(status)
            self._live.start()

    def message(self, text: str) -> None:
        """Write a line above the view."""
        self._console.print(Text(text))

    def address(self, ui_address: str | None) -> None:
        """Show the address below the bars."""
        self._ui_address = ui_address

    def finish(self, result: LaunchResult | None = None) -> None:
        """Draw the last state and give the terminal back."""
        if self._open:
            self._open = False
            if result is not None:
                self._state = result.status
            self._live.stop()

    def render(self) -> RenderableType:
        """The view as it is now."""
        lines: list[RenderableType] = []
        for item in self._requests:
            lines += [_head(item), *_details(item)]
        lines += [Text(text, style="yellow") for text in self._notices]
        lines.append(self._foot())
        return Group(*lines)

    def _foot(self) -> Text:
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        hours, minutes = divmod(minutes, 60)
        text = Text(f"{self._state} · {hours:d}:{minutes:02d}:{seconds:02d}", style="dim")
        return text.append(f" · {self._ui_address}") if self._ui_address else text

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()


def _head(item: RequestProgress) -> Table:
    row = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=max(item.total, 1), completed=item.finished, width=BAR_WIDTH)
    share = Text(f"{item.finished}/{item.total} {item.share * 100:5.1f}%")
    row.add_row(Text(item.label, style="bold"), bar, share, Text(item.status, style="dim"))
    return row


def _details(item: RequestProgress) -> list[Text]:
    counts = Text("  ")
    for icon, field, name, style in _COUNTS:
        number = getattr(item, field)
        if number or field == "running":
            counts.append(f"{icon} {number} {name}  ", style=style)
    if item.phases:
        counts.append(item.phase_text(), style="dim")
    lines = [counts]
    if item.message:
        lines.append(Text(f"  {item.message}", style="yellow"))
    if item.run_dir:
        lines.append(Text(f"  {item.run_dir}", style="dim"))
    return lines
