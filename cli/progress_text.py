"""The state of a launch as short texts, the same for every kind of display."""

from __future__ import annotations

from dataclasses import dataclass

from ..contracts.launch import OVER_STATES, LaunchStatus, RequestStatus
from ..contracts.records import ProgressSnapshot

BAR_CHARS = 24


@dataclass(frozen=True)
class RequestProgress:
    """What a display shows of one request."""

    label: str
    status: str
    total: int
    finished: int
    running: int
    failed: int
    error: int
    warning: int
    skipped: int
    reused: int
    waiting: int = 0
    """Attempts that have begun and wait, for a retry or for an operator."""
    phases: tuple[tuple[str, int], ...] = ()
    run_dir: str = ""
    message: str = ""

    @property
    def share(self) -> float:
        """Finished part of the tasks, between 0 and 1."""
        return min(self.finished / self.total, 1.0) if self.total else 0.0

    def counts(self) -> str:
        """``running=2 failed=0 …``."""
        return (
            f"running={self.running} failed={self.failed} error={self.error} "
            f"warning={self.warning} skipped={self.skipped} reused={self.reused}"
        )

    def phase_text(self) -> str:
        """``run_harness:2,evaluate:1``, or a dash."""
        return ",".join(f"{name}:{count}" for name, count in self.phases) or "-"

    def line(self) -> str:
        """The progress line of plain displays; scripts parse it, so its form stays as it is."""
        filled = int(self.share * BAR_CHARS)
        bar = "#" * filled + "-" * (BAR_CHARS - filled)
        message = f" | {self.message}" if self.message else ""
        return (
            f"Progress | {self.label} [{bar}] {self.finished}/{self.total} {self.share * 100:5.1f}% | "
            f"{self.counts()} | status={self.status} | phases={self.phase_text()}{message}"
        )


def progress_of(status: LaunchStatus, snapshot: ProgressSnapshot | None) -> list[RequestProgress]:
    """One entry for each request; ``snapshot`` adds phases to the request that it belongs to."""
    single = len(status.requests) == 1
    return [
        _request(item, snapshot if snapshot and (single or snapshot.run_id == item.run_id) else None, single)
        for item in status.requests
    ]


def _request(item: RequestStatus, snapshot: ProgressSnapshot | None, single: bool) -> RequestProgress:
    """``single``: what is evaluated tells enough; several requests are told apart by their names."""
    over = item.state in OVER_STATES  # the snapshot may be a moment older
    phases = sorted(snapshot.current_phase_counts.items()) if snapshot and not over else []
    waiting = 0 if over else item.waiting_attempts
    running = 0 if over else item.running_attempts
    if snapshot and not over:  # a task may have several attempts
        running = max(0, snapshot.running_tasks - waiting)
    if waiting:  # those that wait are in the phases, too
        phases = [*(phases if running else []), ("waiting", waiting)]
    label = f"{item.benchmark}/{item.model}" if single and item.benchmark else item.key
    return RequestProgress(
        label=label,
        status=item.state,
        total=item.total_tasks,
        finished=item.finished_tasks + item.reused_tasks,
        running=running,
        failed=item.failed_tasks,
        error=item.error_tasks,
        warning=item.warning_tasks,
        skipped=snapshot.skipped_tasks if snapshot else 0,
        reused=item.reused_tasks,
        waiting=waiting,
        phases=tuple((name, count) for name, count in phases if count),
        run_dir=item.run_dir,
        message=item.message,
    )


def notices(status: LaunchStatus) -> list[str]:
    """What is to be said of a launch that is not over beside its progress; nothing twice."""
    if status.state in OVER_STATES:
        return []
    told = {item.message for item in status.requests}
    return [*([status.message] if status.message and status.message not in told else []), *status.troubles]
