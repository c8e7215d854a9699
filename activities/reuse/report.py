"""What came of a take-over, for the log and the progress file."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field

from ...contracts.issues import Severity
from .verdicts import Verdict

_log = logging.getLogger(__name__)


@dataclass
class ReuseReport:
    """Counts tasks that were taken over whole, and attempts otherwise."""

    source_run: str = ""
    total_tasks: int = 0
    reused_tasks: int = 0
    error_tasks: int = 0
    """Reused ones whose worst issue is an ERROR; a FATAL is never reused."""
    warning_tasks: int = 0
    kept_attempts: int = 0
    """Attempts of tasks that get further ones."""
    resumed_evaluations: int = 0
    refused_evaluations: int = 0
    unclassified_tasks: int = 0
    broken_files: int = 0
    other_settings_attempts: int = 0
    """Attempts that were taken over, finished or to be evaluated, and were made with other settings."""
    other_settings: list[str] = field(default_factory=list)
    """Which settings differ from those of the source."""
    again: Counter[Verdict] = field(default_factory=Counter)
    """Attempts that are executed again, by the reason."""

    @property
    def tasks_to_run(self) -> int:
        """Tasks without a record."""
        return self.total_tasks - self.reused_tasks

    def count_task(self, severity: Severity | None) -> None:
        """A task was taken over; ``severity`` is its worst issue."""
        self.reused_tasks += 1
        self.error_tasks += severity is Severity.ERROR
        self.warning_tasks += severity is Severity.WARNING

    def count_broken(self, task_id: str, what: object) -> None:
        """A file of the source cannot be used; costs its own task only."""
        self.broken_files += 1
        _log.warning("[%s] is executed again: %s", task_id, what)

    def count_unclassified(self, task_id: str, what: object) -> None:
        """A record of an older version says too little to be counted."""
        self.unclassified_tasks += 1
        _log.info("[%s] is executed again: %s", task_id, what)

    def count_again(self, task_id: str, attempt: int, verdict: Verdict) -> None:
        """An attempt does not count any more."""
        self.again[verdict] += 1
        _log.info("[%s a%d] is not reused: such attempts %s", task_id, attempt, verdict.value)

    def log(self) -> None:
        """One line with all counts that are not 0."""
        parts = [
            f"{self.reused_tasks} of {self.total_tasks} tasks reused",
            f"{self.tasks_to_run} to run",
            *(f"{count} attempts {verdict.value}" for verdict, count in self.again.items()),
        ]
        optional = {
            "attempts of unfinished tasks kept": self.kept_attempts,
            "evaluations taken up": self.resumed_evaluations,
            "evaluations refused": self.refused_evaluations,
            "tasks unclassified (older version)": self.unclassified_tasks,
            "files broken": self.broken_files,
            "attempts made with other settings": self.other_settings_attempts,
        }
        parts += [f"{count} {name}" for name, count in optional.items() if count]
        _log.info("reuse of run %s: %s", self.source_run, ", ".join(parts))
        if self.other_settings_attempts:
            named = "; ".join(self.other_settings) or "which, their records do not tell"
            _log.warning(
                "%d reused attempts were made with other settings: %s", self.other_settings_attempts, named
            )
