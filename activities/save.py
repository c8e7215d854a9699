"""Keep results: a discarded execution as a retry record, the last one as the attempt's result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from temporalio import activity

from ..contracts.activities import (
    SAVE_ATTEMPT,
    SAVE_RETRY,
    AttemptOutcome,
    Done,
    SaveAttemptInput,
    SaveRetryInput,
)
from ..contracts.issues import Issue, Severity
from ..contracts.metrics import MetricContract, MetricKind
from ..contracts.phases import Phase
from ..contracts.records import AttemptCheckpoint, AttemptRecord, ProgressEvent, RetryRecord
from ..contracts.result import RunResult, TaskStatus
from ..contracts.retries import RetryScope
from ..contracts.task import TaskSpec
from .boundary import activity_boundary
from .identity import attempt_identity
from .reuse.settings import settings_digest
from .services import Services
from .store import EventSource, RunStore, run_log_scope, task_digest, worst_severity
from .store.progress import open_progress
from .task_steps import diagnostics_of, latest_result, with_diagnostics

_log = logging.getLogger(__name__)


class Save:
    """Both activities replace what an earlier try of them wrote, so running them twice is safe."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name=SAVE_RETRY.name)
    @activity_boundary
    async def save_retry(self, input: SaveRetryInput) -> Done:
        """Write the retry record; for a retry of the evaluation alone, hand the inference on."""
        store = self._services.store(input.ref.run_dir)
        execution = store.execution(input.ref)
        task = store.task(input.ref.task_index)
        plan = execution.load_plan()
        result = latest_result(store, input.ref, task)
        diagnostics = diagnostics_of(store, input.ref, task)
        if result is not None:
            result = with_diagnostics(result.with_issues(input.issues), diagnostics)
        record = RetryRecord(
            task_id=task.task_id,
            category=task.category,
            attempt=input.ref.attempt,
            execution=input.ref.execution,
            retry=input.retry,
            max_retries=plan.retry.max_retries,
            retry_delay_seconds=input.delay_seconds,
            stage=input.stage,
            scope="evaluate" if input.scope == RetryScope.EVALUATE else "attempt",
            matched_pattern=input.matched_pattern,
            loss=input.loss,
            issues=input.issues,
            discarded_result=result,
            plan=plan,
        )
        path = await asyncio.to_thread(store.save_retry, record, input.ref.generation)
        if input.scope == RetryScope.EVALUATE:
            following = input.ref.model_copy(update={"execution": input.ref.execution + 1})
            await asyncio.to_thread(store.execution(following).adopt_inference, execution)
        event = EventSource.of(store.request_state(), input.ref.generation).attempt_retry(
            task.task_id,
            task.category or None,
            attempt=input.ref.attempt,
            retry=input.retry,
            max_retries=plan.retry.max_retries,
            stage=input.stage,
            scope=record.scope,
            matched_pattern=input.matched_pattern,
            loss=input.loss,
            retry_detail=path,
        )
        await open_progress(input.ref.run_dir).emit([event])
        return Done()

    @activity.defn(name=SAVE_ATTEMPT.name)
    @activity_boundary
    async def save_attempt(self, input: SaveAttemptInput) -> AttemptOutcome:
        """Write the attempt's result durably; with the task's last attempt also its record."""
        store = self._services.store(input.ref.run_dir)
        components = self._services.components(input.ref.run_dir)
        success_of = success_reader(components.benchmark.metric_contract)
        task = store.task(input.ref.task_index)
        if input.latest:
            input = input.model_copy(update={"ref": store.latest_execution(input.ref) or input.ref})
        with run_log_scope(input.ref.run_dir):
            checkpoint = store.attempt(task.task_id, input.ref.attempt)
            again = checkpoint is not None
            if checkpoint is None:
                checkpoint = _checkpoint(store, task, input, settings_digest(components))
            finished = await asyncio.to_thread(store.save_attempt, checkpoint, input.attempts, success_of)
            await open_progress(input.ref.run_dir).emit(_events(store, task, input, checkpoint, finished))
            _log_end(task, input, checkpoint.record)
        outcome = _outcome(task.task_id, input.ref.attempt, checkpoint.record, success_of, finished)
        if not again:
            self._services.metrics.attempt_saved(components.request, outcome)
        return outcome


def _log_end(task: TaskSpec, input: SaveAttemptInput, record: AttemptRecord) -> None:
    worst = ", ".join(dict.fromkeys(f"{issue.severity} {issue.code}" for issue in record.issues))
    _log.info(
        "[%s a%d] ended: %s %s in %.1f s%s%s",
        task.task_id,
        input.ref.attempt,
        record.status.value,
        record.metrics or "without a score",
        sum(record.meta.timings.values()),
        f", {input.retry_count} retries" if input.retry_count else "",
        f"; {worst}" if worst else "",
    )


def success_reader(contract: MetricContract) -> Callable[[AttemptRecord], bool | None]:
    """Reads the primary metric of a record when it is binary; else nothing counts as a success."""

    def success_of(record: AttemptRecord) -> bool | None:
        if contract.metrics[contract.primary] is not MetricKind.BINARY:
            return None
        value = record.metrics.get(contract.primary)
        return value if isinstance(value, bool) else None

    return success_of


def _checkpoint(store: RunStore, task: TaskSpec, input: SaveAttemptInput, settings: str) -> AttemptCheckpoint:
    execution = store.execution(input.ref)
    plan = execution.find_plan()
    found = latest_result(store, input.ref, task)
    result = found or RunResult(task_id=task.task_id, category=task.category, ground_truth=task.ground_truth)
    result = with_diagnostics(result.with_issues(input.issues), diagnostics_of(store, input.ref, task))
    status = TaskStatus.CANCELLED if input.cancelled else result.status
    if found is None and not result.issues:
        status = TaskStatus.SKIPPED
    record = AttemptRecord(
        status=status,
        metrics={
            name: value for name, value in result.metrics.items() if isinstance(value, bool | int | float)
        },
        final_answer=result.final_answer,
        trajectory=result.trajectory,
        issues=result.issues,
        artifacts=result.artifacts,
        meta=result.meta,
        extra=result.extra,
        steps=result.steps,
        plan=plan,
        identity=attempt_identity(task_digest(task), plan, settings) if plan else None,
    )
    return AttemptCheckpoint(
        task_id=task.task_id,
        category=task.category,
        ground_truth=task.ground_truth,
        attempt=input.ref.attempt,
        retry_count=input.retry_count,
        record=record,
    )


def _events(
    store: RunStore, task: TaskSpec, input: SaveAttemptInput, checkpoint: AttemptCheckpoint, finished: bool
) -> list[ProgressEvent]:
    source = EventSource.of(store.request_state(), input.ref.generation)
    task_id, category, attempt = task.task_id, task.category or None, input.ref.attempt
    fatal = any(issue.severity is Severity.FATAL for issue in checkpoint.record.issues)
    events = [
        source.phase_changed(
            task_id,
            category,
            attempt=attempt,
            execution=input.ref.execution,
            phase=Phase.SAVE_PARTIAL.value,
        ),
        source.attempt_finished(task_id, category, attempt=attempt, failed=fatal),
        source.partial_saved(task_id, category, attempt=attempt),
    ]
    if finished:
        record = store.task_record(task_id)
        events.append(
            source.task_finished(
                task_id,
                category,
                index=input.ref.task_index,
                total=store.task_count(),
                severity=worst_severity(record) if record else None,
                skipped=checkpoint.record.status is TaskStatus.SKIPPED,
            )
        )
    return events


def _outcome(
    task_id: str,
    attempt: int,
    record: AttemptRecord,
    success_of: Callable[[AttemptRecord], bool | None],
    finished: bool,
) -> AttemptOutcome:
    first: Issue | None = min(
        record.issues, key=lambda issue: list(Severity).index(issue.severity), default=None
    )
    severities = {issue.severity for issue in record.issues}
    return AttemptOutcome(
        task_id=task_id,
        attempt=attempt,
        status=record.status,
        success=success_of(record),
        fatal=Severity.FATAL in severities,
        error=Severity.ERROR in severities,
        warning=Severity.WARNING in severities,
        task_finished=finished,
        message=f"{first.severity} {first.code}: {first.message}"[:300] if first else "",
    )
