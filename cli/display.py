"""Showing the progress of a launch on standard error: live, as lines of text, or not at all.

Standard output is left to the final result, so that it can be piped.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self, TextIO

from ..contracts.launch import LaunchResult, LaunchStatus
from ..contracts.records import ProgressSnapshot
from ..contracts.request import ProgressMode
from .progress_text import notices, progress_of

PLAIN_INTERVAL_SECONDS = 3.0
_NUMBER = re.compile(r"\d+")
"""Counts grow in a notice that stays the same."""


class Display(Protocol):
    """What follows a launch tells to; leave it as a context, so that the terminal is restored."""

    def update(self, status: LaunchStatus, snapshot: ProgressSnapshot | None = None) -> None:
        """Show the current state; call it as often as something may have changed."""
        ...

    def message(self, text: str) -> None:
        """Show a line that stays."""
        ...

    def address(self, ui_address: str | None) -> None:
        """Tell where the launch can be watched in a browser."""
        ...

    def finish(self, result: LaunchResult | None = None) -> None:
        """End the display; later calls of any method but ``message`` do nothing."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def make_display(mode: ProgressMode, stream: TextIO | None = None) -> Display:
    """``auto``: live on a terminal, else plain lines; ``plain``: lines; ``none``: messages only."""
    stream = stream or sys.stderr
    if mode == "none":
        return QuietDisplay(stream)
    if mode == "auto" and stream.isatty():
        from .live_display import LiveDisplay

        return LiveDisplay(stream)
    return PlainDisplay(stream)


class QuietDisplay:
    """Shows messages and what keeps the launch from getting on, but no progress."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._notices: set[str] = set()

    def update(self, status: LaunchStatus, snapshot: ProgressSnapshot | None = None) -> None:
        """Write the notices that are new."""
        current = {_NUMBER.sub("", text): text for text in notices(status)}
        for key, text in current.items():
            if key not in self._notices:
                self.message(f"Note | {text}")
        self._notices = set(current)

    def message(self, text: str) -> None:
        """Write the line."""
        print(text, file=self._stream, flush=True)

    def address(self, ui_address: str | None) -> None:
        """Show nothing."""

    def finish(self, result: LaunchResult | None = None) -> None:
        """Nothing is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()


class PlainDisplay(QuietDisplay):
    """Writes a line for a request when something changed, and at most one every few seconds.

    A change of a request's status, its last task, and what keeps the launch from getting on are
    shown at once.
    """

    def __init__(
        self,
        stream: TextIO,
        interval_seconds: float = PLAIN_INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stream)
        self._interval = interval_seconds
        self._clock = clock
        self._shown: dict[str, tuple[float, str, tuple[object, ...]]] = {}
        self._waiting: dict[str, str] = {}
        self._finished = False

    def update(self, status: LaunchStatus, snapshot: ProgressSnapshot | None = None) -> None:
        """Write what is new."""
        if self._finished:
            return
        super().update(status, snapshot)
        for request, progress in zip(status.requests, progress_of(status, snapshot), strict=True):
            line = progress.line()
            urgent = (progress.status, progress.message, progress.total, progress.finished == progress.total)
            self._offer(request.key, line, urgent)

    def address(self, ui_address: str | None) -> None:
        """Write the address once."""
        if ui_address:
            self.message(f"Watch | {ui_address}")

    def finish(self, result: LaunchResult | None = None) -> None:
        """Write the last state of each request that was held back."""
        if not self._finished:
            self._finished = True
            for line in self._waiting.values():
                self.message(line)

    def _offer(self, key: str, line: str, urgent: tuple[object, ...]) -> None:
        now = self._clock()
        shown = self._shown.get(key)
        if shown is not None:
            at, last_line, last_urgent = shown
            if line == last_line:
                self._waiting.pop(key, None)
                return
            if urgent == last_urgent and now - at < self._interval:
                self._waiting[key] = line
                return
        self._waiting.pop(key, None)
        self._shown[key] = (now, line, urgent)
        self.message(line)


class DisplayLogHandler(logging.Handler):
    """Sends log records through the display, so that they do not tear a live view."""

    def __init__(self, display: Display) -> None:
        super().__init__()
        self._display = display
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Show the record."""
        self._display.message(self.format(record))
