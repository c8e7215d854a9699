"""The progress events of a run, one constructor each.

The key of an event follows from what it is about and not from when it happened. So an activity
that runs again makes the same event, and the writer drops it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from ...contracts.issues import Severity
from ...contracts.records import EventName, PlanSummary, ProgressEvent, RunStatus
from .state import RequestState

_NUMBERED = frozenset({"task_started", "task_finished"})


@dataclass(frozen=True)
class EventSource:
    """Makes the events of one run; orchestration fields stay null for a single ``run``."""

    run_id: str
    orchestration_id: str | None = None
    request_key: str | None = None
    request_name: str | None = None
    request_index: int | None = None
    generation: int = 0
    """Of the task that events are made for: when a finished one is executed again, the same things are new."""

    @classmethod
    def of(cls, state: RequestState, generation: int = 0) -> EventSource:
        """The source of a stored request's events."""
        if not state.orchestrated:
            return cls(run_id=state.run_id, generation=generation)
        return cls(
            run_id=state.run_id,
            orchestration_id=state.launch_id,
            request_key=state.request_key,
            request_name=state.request.metadata.request_name or None,
            request_index=state.request_index,
            generation=generation,
        )

    def run_started(self, *, model: str, benchmark: str, harness: str, environment: str) -> ProgressEvent:
        """The request begins to load its tasks."""
        payload = {"model": model, "benchmark": benchmark, "harness": harness, "environment": environment}
        return self._make("run_started", "", payload=payload)

    def tasks_loaded(self, total_tasks: int) -> ProgressEvent:
        """Tasks are loaded and selected."""
        return self._make("tasks_loaded", "", payload={"total_tasks": total_tasks})

    def reuse_loaded(
        self,
        *,
        reused_tasks: int,
        tasks_to_run: int,
        error_tasks: int = 0,
        warning_tasks: int = 0,
        kept_attempts: int = 0,
    ) -> ProgressEvent:
        """Finished tasks were taken over; ``error_tasks`` and ``warning_tasks`` of them hold such issues.

        ``kept_attempts`` are those of tasks that get further ones.
        """
        payload = {
            "reused_tasks": reused_tasks,
            "tasks_to_run": tasks_to_run,
            "error_tasks": error_tasks,
            "warning_tasks": warning_tasks,
            "kept_attempts": kept_attempts,
        }
        return self._make("reuse_loaded", "", payload=payload)

    def task_started(
        self,
        task_id: str,
        category: str | None,
        *,
        index: int,
        total: int,
        previous_status: str | None = None,
        previous_severity: Severity | None = None,
    ) -> ProgressEvent:
        """A task begins. When a finished one begins again, its old outcome is named, so that counters
        can take it back."""
        payload: dict[str, Any] = {"index": index, "total": total}
        if previous_status is not None:
            payload["reopened"] = {"status": previous_status, "severity": previous_severity}
        return self._make("task_started", f"{self.generation}:{task_id}", task_id, category, payload=payload)

    def phase_changed(
        self, task_id: str, category: str | None, *, attempt: int, execution: int, phase: str, step: int = 0
    ) -> ProgressEvent:
        """An execution enters a phase, in a step of the task or (0) as a whole."""
        within = f":s{step}" if step else ""
        about = f"{attempt}:{execution}{within}:{phase}:{task_id}"
        payload: dict[str, Any] = {"step": step} if step else {}
        return self._make(
            "phase_changed", about, task_id, category, attempt=attempt, phase=phase, payload=payload
        )

    def attempt_started(self, task_id: str, category: str | None, *, attempt: int) -> ProgressEvent:
        """A semantic attempt begins; its retries do not count."""
        return self._make("attempt_started", f"{attempt}:{task_id}", task_id, category, attempt=attempt)

    def execution_plan_resolved(
        self, task_id: str, category: str | None, *, attempt: int, plan: PlanSummary
    ) -> ProgressEvent:
        """The plan of an attempt is settled; ``run_info.json`` takes its summaries from these events."""
        payload = plan.model_dump(mode="json")
        about = f"{attempt}:{task_id}"
        return self._make(
            "execution_plan_resolved",
            about,
            task_id,
            category,
            attempt=attempt,
            phase="plan",
            payload=payload,
        )

    def attempt_retry(
        self,
        task_id: str,
        category: str | None,
        *,
        attempt: int,
        retry: int,
        max_retries: int,
        stage: str,
        scope: str,
        matched_pattern: str,
        loss: int,
        retry_detail: str,
    ) -> ProgressEvent:
        """An execution was discarded and another one follows."""
        payload: dict[str, Any] = {
            "retry": retry,
            "max_retries": max_retries,
            "stage": stage,
            "scope": scope,
            "matched_pattern": matched_pattern,
            "retry_detail": retry_detail,
        }
        if loss:
            payload["loss"] = loss
        return self._make(
            "attempt_retry",
            f"{attempt}:{f'loss{loss}' if loss else retry}:{task_id}",
            task_id,
            category,
            attempt=attempt,
            payload=payload,
        )

    def attempt_finished(
        self, task_id: str, category: str | None, *, attempt: int, failed: bool
    ) -> ProgressEvent:
        """An attempt is over; ``failed`` says that it holds a FATAL, not that the answer is wrong."""
        status = "failed" if failed else "completed"
        return self._make(
            "attempt_finished", f"{attempt}:{task_id}", task_id, category, attempt=attempt, status=status
        )

    def partial_saved(self, task_id: str, category: str | None, *, attempt: int) -> ProgressEvent:
        """The result of an attempt is on disk."""
        return self._make("partial_saved", f"{attempt}:{task_id}", task_id, category)

    def task_finished(
        self,
        task_id: str,
        category: str | None,
        *,
        index: int,
        total: int,
        severity: Severity | None,
        skipped: bool = False,
    ) -> ProgressEvent:
        """A task is over; ``severity`` is the worst one of its final attempts."""
        status = "skipped" if skipped else "failed" if severity is Severity.FATAL else "completed"
        payload = {"index": index, "total": total, "severity": severity}
        return self._make(
            "task_finished", f"{self.generation}:{task_id}", task_id, category, status=status, payload=payload
        )

    def summary_started(self) -> ProgressEvent:
        """Aggregation begins."""
        return self._make("summary_started", "")

    def run_finished(self, status: RunStatus, error: str = "") -> ProgressEvent:
        """The request is over."""
        payload = {"error": error} if error else {}
        return self._make("run_finished", status, status=status, payload=payload)

    def _make(
        self,
        event: EventName,
        about: str,
        task_id: str | None = None,
        category: str | None = None,
        *,
        attempt: int | None = None,
        phase: str | None = None,
        status: str | None = None,
        payload: dict[str, Any] | None = None,
    ) -> ProgressEvent:
        # The two that begin and end a task have always had the generation in their place for it.
        again = f"{self.generation}:" if self.generation and event not in _NUMBERED else ""
        return ProgressEvent(
            key=f"{event}:{again}{about}",
            run_id=self.run_id,
            event=event,
            timestamp=round(time.time(), 6),
            task_id=task_id,
            category=category,
            attempt=attempt,
            phase=phase,
            status=status,
            payload=payload or {},
            orchestration_id=self.orchestration_id,
            request_key=self.request_key,
            request_name=self.request_name,
            request_index=self.request_index,
        )
